# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins of SchedMD's packages of Slurm, in place of Debian's.

SchedMD's are named slurm-smd*, conflict with Debian's, provide none of their names, have their
plugins in /usr/lib/TRIPLET/slurm, and leave user and directories of slurm to the administrator.
The stand-ins have all that, and the files of Debian's packages; the init scripts of these as well,
because nothing here runs systemd. Each function takes `sh`, which runs a command in the system.
"""

# Stand-in: the packages whose files it has, what it conflicts with, what it needs.
STAND_INS = {
    "slurm-smd": (("slurm-wlm-basic-plugins",), "slurm-wlm, slurm-wlm-basic-plugins", "munge"),
    "slurm-smd-client": (("slurm-client",), "slurm-client", "slurm-smd (= {version})"),
    "slurm-smd-slurmctld": (("slurmctld",), "slurmctld", "slurm-smd (= {version})"),
    "slurm-smd-slurmd": (("slurmd",), "slurmd", "slurm-smd (= {version})"),
}
FOREIGN = "slurm-wlm-basic-plugins", "slurmctld", "slurmd", "slurm-client"


def make(sh, name, version):
    """One stand-in as a package in /smd."""
    parts, conflicts, needs = STAND_INS[name]
    root, needs = f"/smd/{name}", needs.format(version=version)
    control = (f"Package: {name}\\nVersion: {version}\\nArchitecture: amd64\\n"
               f"Maintainer: nobody <nobody@example.org>\\nDepends: {needs}\\n"
               f"Conflicts: {conflicts}\\nDescription: stand-in\\n")
    files = " ".join(f"$(dpkg -L {part})" for part in parts)
    sh(f"mkdir -p {root}/DEBIAN && printf '{control}' > {root}/DEBIAN/control && "
       f"for f in {files}; do [ -d $f ] && [ ! -L $f ] || echo $f; done | "
       f"grep -E '^/(usr|etc/init.d)/' | grep -v '^/usr/share' | tar -C / -cf - -T - | "
       f"tar -C {root} -xf - && "
       # Debian's alternatives have the plain names.
       f"for f in {root}/usr/sbin/*-wlm; do [ ! -e $f ] || mv $f ${{f%-wlm}}; done")
    if name == "slurm-smd":
        # libslurm was fetched when the tree was made. Debian's programs look for the other
        # library where Debian has it.
        sh(f"dpkg-deb -x /var/cache/apt/archives/libslurm[0-9]*.deb {root} && "
           f"rm -rf {root}/usr/share && mkdir -p {root}/etc/ld.so.conf.d && "
           f"cd {root}/usr/lib/*/slurm-wlm && here=$(pwd) && mv $here ${{here%-wlm}} && "
           f"here=${{here#{root}}} && echo ${{here%-wlm}} > {root}/etc/ld.so.conf.d/slurm-smd.conf")
    sh(f"dpkg-deb --root-owner-group --build {root} /smd > /dev/null")


def replace(sh, version):
    """Stand-ins of this version instead of Debian's packages, and what an administrator adds."""
    for name in STAND_INS:
        make(sh, name, version)
    sh("dpkg --purge --force-depends " + " ".join(FOREIGN))
    sh("dpkg -i /smd/*.deb && ldconfig")
    sh("id slurm || useradd --system slurm")
    sh("install -d -o slurm -g slurm /etc/slurm /var/lib/slurm/slurmctld /var/log/slurm")
