#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-or-later
# fetch-headers.sh DEST VERSION [SOURCE] - Slurm's own headers of one release.
#
# Slurm ships no headers for plugins: they come from its source, and Slurm's
# configure, with Debian's options, makes config.h and slurm_version.h.  The
# source is Debian's copy of the upstream archive (the packages' patches change
# none of the structures that a plugin sees), or SOURCE: an archive or an
# unpacked tree, for a release that Debian does not have and for sites that
# build Slurm themselves.  DEST appears only when it is whole.
# Needs: apt-get (without SOURCE), a C compiler, make.
set -eu

[ $# -eq 2 ] || [ $# -eq 3 ] || { echo "usage: $0 DEST VERSION [SOURCE]" >&2; exit 2; }
dest=$1
version=$2
source=${3:-}
here=$(pwd)
. "$(dirname "$0")/debian.sh"

for tool in cc make tar; do
	command -v "$tool" > /dev/null || fail "$tool is missing (apt install build-essential)"
done
mkdir -p "$(dirname "$dest")"
case $dest in /*) ;; *) dest=$here/$dest ;; esac
case $source in /* | '') ;; *) source=$here/$source ;; esac
log=$dest.log
tmp=$(mktemp -d "$dest.tmp.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
: > "$log"

# Debian's copy of the upstream archive; not every archive has every version
# that it lists.
fetch() {
	command -v apt-get > /dev/null ||
		fail "this is no Debian: give Slurm's source (SLURM_SOURCE=...)"
	release=$(debian_source "$version") ||
		fail "no Debian release keeps the source of Slurm $version:" \
			"give it, an archive or a tree (SLURM_SOURCE=...)"
	debian_archives deb-src "$release" > "$tmp/archives"
	[ -s "$tmp/archives" ] || fail "apt knows no Debian archive: run apt-get update first"
	while read -r archive; do
		rm -rf "$tmp/apt"
		debian_prepare "$tmp/apt" "$archive"
		(cd "$tmp/apt" && debian_apt "$tmp/apt" update &&
			debian_apt "$tmp/apt" source --download-only --tar-only slurm-wlm) \
			>> "$log" 2>&1 || true
		set -- "$tmp/apt/slurm-wlm_$version.orig.tar."*
		if [ -f "$1" ]; then
			source=$1
			return
		fi
	done < "$tmp/archives"
	fail "no archive of $release has the source of slurm-wlm $version, see $log"
}

[ -n "$source" ] || fetch
mkdir "$tmp/tree"
if [ -d "$source" ]; then
	tar -C "$source" --exclude=.git -cf - . | tar -C "$tmp/tree" -xf -
else
	tar -C "$tmp/tree" --strip-components=1 -xf "$source" >> "$log" 2>&1 ||
		fail "$source does not unpack, see $log"
fi
cd "$tmp/tree"
[ -e META ] || fail "$source is no source of Slurm: it has no META"
given=$(sed -n 's/^[[:space:]]*Version:[[:space:]]*//p' META)
[ "$given" = "$version" ] ||
	fail "$source is the source of Slurm ${given:-that tells no version}, not of $version"

# Debian's options, but for what only adds libraries.
munge=--without-munge
[ -e /usr/include/munge.h ] && munge=--with-munge
./configure --prefix=/usr --libdir="/usr/lib/$(cc -print-multiarch)" \
	--sysconfdir=/etc/slurm --enable-multiple-slurmd --disable-debug --without-rpath \
	--disable-pam $munge >> "$log" 2>&1 ||
	fail "configure failed, see $log: $(grep 'configure: error:' "$log" | tail -n 1)"
grep -q '^#define MULTIPLE_SLURMD 1' config.h || fail "configure did not take Debian's options"

mkdir ../headers
find . -name '*.h' -o -name META -o -name COPYING | tar -cf - -T - | tar -xf - -C ../headers
echo "$source" > ../headers/.phalanx-headers
cd "$here"
rm -rf "$dest"
mv "$tmp/headers" "$dest"
echo "$dest: headers of $(basename "$source")"
