# SPDX-License-Identifier: GPL-2.0-or-later
# debian.sh - sourced by scripts that need files of Debian's Slurm packages.
#
# The archives that this machine's apt uses are read once more, for the release
# that has the wanted Slurm, with lists, cache and package status of their own:
# nothing under /etc or /var changes, nothing is installed, apt verifies what
# it fetches.

KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

fail() { echo "$0: $*" >&2; exit 1; }

# The Debian release that has a version of Slurm.
debian_release() { # VERSION
	case $1 in
	22.05.*) echo bookworm ;;
	24.11.*) echo trixie ;;
	26.05.*) echo forky ;;
	*) return 1 ;;
	esac
}

# The same if its source can be had there as well.  forky is still being tested:
# what it has today it need not have tomorrow.
debian_source() { # VERSION
	debian_release "$1" | grep -vx forky
}

# Its number.
debian_number() { # VERSION
	case $(debian_release "$1") in
	bookworm) echo 12 ;;
	trixie) echo 13 ;;
	forky) echo 14 ;;
	*) return 1 ;;
	esac
}

# Lines of sources.list for a release, the main archive first, where a version
# stays longest.
debian_archives() { # deb|deb-src RELEASE
	apt-get indextargets --format '$(REPO_URI) $(COMPONENT) $(ORIGIN)' \
		'Identifier: Packages' | sort -u | while read -r uri component origin; do
		[ "$origin" = Debian ] && [ "$component" = main ] || continue
		case $uri in
		*security*) echo "$1 [signed-by=$KEYRING] $uri $2-security main" ;;
		*)
			echo "$1 [signed-by=$KEYRING] $uri $2 main"
			echo "$1 [signed-by=$KEYRING] $uri $2-updates main"
			;;
		esac
	done
}

# Makes DIR, an absolute path, ready for debian_apt.
debian_prepare() { # DIR SOURCES-LINES
	mkdir -p "$1/lists/partial" "$1/cache/archives/partial" "$1/none"
	echo "$2" > "$1/sources.list"
	: > "$1/status"
}

debian_apt() { # DIR APT-GET-WORDS...
	_dir=$1
	shift
	apt-get -q -y -o Dir::Etc::sourcelist="$_dir/sources.list" -o Dir::Etc::sourceparts=- \
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts="$_dir/none" \
		-o Dir::State::lists="$_dir/lists" \
		-o Dir::State::status="$_dir/status" -o Dir::Cache="$_dir/cache" \
		-o Debug::NoLocking=true -o APT::Sandbox::User=root -o Acquire::Retries=3 \
		-o APT::Install-Recommends=false "$@" < /dev/null
}
