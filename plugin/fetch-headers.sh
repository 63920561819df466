#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# fetch-headers.sh DEST VERSION - Slurm's own headers of one release.
#
# Debian ships no headers for plugins, so they come from the source package
# that the installed Slurm was built from: the archives that apt already uses
# are read once more as source archives, with lists and cache of their own
# (nothing under /etc or /var changes), apt verifies what it fetches, and
# Slurm's configure makes config.h with Debian's options.  DEST appears only
# when it is whole.
# Needs: apt-get, dpkg-source (dpkg-dev), a C compiler, make.
set -eu

[ $# -eq 2 ] || { echo "usage: $0 DEST VERSION" >&2; exit 2; }
dest=$1
version=$2
here=$(pwd)
log=$dest.log

fail() { echo "$0: $*" >&2; exit 1; }

for tool in apt-get dpkg-source dpkg-query dpkg-architecture cc make; do
	command -v "$tool" > /dev/null || fail "$tool is missing (apt install dpkg-dev build-essential)"
done
mkdir -p "$(dirname "$dest")"
case $dest in /*) ;; *) dest=$here/$dest; log=$here/$log ;; esac
tmp=$(mktemp -d "$dest.tmp.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# The Debian version of the installed packages, if they are of this release.
debian=$(dpkg-query -W -f '${source:Version}\n' slurmctld slurmd slurm-client libslurm-dev \
	slurm-wlm-basic-plugins 2> /dev/null | grep "^$version-" | sort -u | tail -n 1 || true)

# The archives in use, as source archives; the main one first, where a release
# stays longest.
apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' \
	'Identifier: Packages' | sort -u | while read -r uri release component origin; do
	[ "$origin" = Debian ] && [ "$component" = main ] || continue
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
		"$uri $release $component"
done > "$tmp/archives"
[ -s "$tmp/archives" ] || fail "apt knows no Debian archive: run apt-get update first"

apt() {
	apt-get -q -o Dir::Etc::sourcelist="$tmp/sources.list" -o Dir::Etc::sourceparts=- \
		-o Dir::State::lists="$tmp/lists" -o Dir::Cache="$tmp/cache" \
		-o APT::Sandbox::User=root -o Acquire::Retries=3 "$@" < /dev/null >> "$log" 2>&1
}

# Fetch from one archive: the installed version, else any of the release, which
# has the same headers. Not every archive has every version it lists.
fetch_from() {
	rm -rf "$tmp/lists" "$tmp/cache" "$tmp"/slurm-wlm_*
	mkdir -p "$tmp/lists/partial" "$tmp/cache/archives/partial"
	echo "$1" > "$tmp/sources.list"
	apt update || return 1
	apt source --download-only "slurm-wlm${debian:+=$debian}" ||
		apt source --download-only slurm-wlm || return 1
	ls slurm-wlm_"$version"-*.dsc > /dev/null 2>&1
}

: > "$log"
cd "$tmp"
found=
while [ -z "$found" ] && read -r archive; do
	if fetch_from "$archive"; then found=yes; fi
done < archives
[ -n "$found" ] || fail "no archive has the source package slurm-wlm $version, see $log"
dsc=$(ls slurm-wlm_"$version"-*.dsc 2> /dev/null | tail -n 1)
dpkg-source -x "$dsc" tree >> "$log" 2>&1 || fail "$dsc does not unpack, see $log"

# Debian's options, but for what only adds libraries.
munge=--without-munge
[ -e /usr/include/munge.h ] && munge=--with-munge
cd tree
./configure --prefix=/usr --libdir="/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)" \
	--sysconfdir=/etc/slurm --enable-multiple-slurmd --disable-debug --without-rpath \
	--disable-pam $munge >> "$log" 2>&1 || fail "configure failed, see $log"
grep -q '^#define MULTIPLE_SLURMD 1' config.h || fail "configure did not take Debian's options"

mkdir ../headers
find . -name '*.h' -o -name META -o -name COPYING | tar -cf - -T - | tar -xf - -C ../headers
echo "$dsc" > ../headers/.phalanx-headers
cd "$here"
rm -rf "$dest"
mv "$tmp/headers" "$dest"
echo "$dest: headers of ${dsc%.dsc}"
