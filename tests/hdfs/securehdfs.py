# SPDX-License-Identifier: GPL-3.0-or-later
"""A real HDFS with Kerberos and TLS on one machine, with a KDC and authorities of its own.

    with SecureHdfs("/tmp/h", ["n1", "n2"]) as hdfs:
        ... hdfs.keytab("phalanx") may ask for others, hdfs.authority is the certificate

Needs MIT's KDC (Debian: krb5-kdc, krb5-admin-server, krb5-user) and openssl.
"""

import os
import subprocess

from minihdfs import MiniHdfs, run, site
from slurmcluster.ports import free_ports
from slurmcluster.suite import until

REALM = "PHALANX.TEST"
SERVICE, WEB = f"hdfs/localhost@{REALM}", f"HTTP/localhost@{REALM}"
PASSWORD = "changeit"
PROGRAMS = "/usr/sbin:/usr/bin:/sbin:/bin"
KRB5 = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
"""
KDC = """\
[kdcdefaults]
 kdc_listen = ""
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {dir}/principal
  key_stash_file = {dir}/stash
  max_life = 1d
 }}
"""


class Kdc:
    """A realm of its own: principals, their keytabs and tickets."""

    def __init__(self, directory):
        self.dir, self.process = directory, None
        directory.mkdir(parents=True, exist_ok=True)
        port, = free_ports(1)
        values = {"realm": REALM, "port": port, "dir": directory}
        (directory / "krb5.conf").write_text(KRB5.format(**values))
        (directory / "kdc.conf").write_text(KDC.format(**values))
        self.env = {**os.environ, "PATH": PROGRAMS, "KRB5_CONFIG": str(directory / "krb5.conf"),
                    "KRB5_KDC_PROFILE": str(directory / "kdc.conf")}
        self.port = port

    def start(self):
        """The database, and the KDC."""
        if not (self.dir / "principal").exists():
            run(["kdb5_util", "-r", REALM, "create", "-s", "-P", PASSWORD], env=self.env)
        with open(self.dir / "kdc.log", "ab") as log:
            self.process = subprocess.Popen(["krb5kdc", "-n", "-r", REALM], env=self.env,
                                            stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        until(lambda: MiniHdfs.listens(self.port), "the KDC", 30)

    def close(self):
        """Ends the KDC."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def admin(self, command):
        """One command of kadmin.local."""
        return run(["kadmin.local", "-r", REALM, "-q", command], env=self.env)

    def keytab(self, *principals):
        """A file with the keys of these principals, which are made where they are not there."""
        path = self.dir / (principals[0].split("@")[0].replace("/", "-") + ".keytab")
        if not path.exists():
            for principal in principals:
                self.admin(f"addprinc -randkey {principal}")
                self.admin(f"ktadd -k {path} {principal}")
        return path

    def ticket(self, principal, life="1h"):
        """A file with a ticket of a principal."""
        name = principal.split("@")[0].replace("/", "-")
        path = self.dir / f"{name}-{life}.tickets"
        run(["kinit", "-l", life, "-c", f"FILE:{path}", "-k", "-t", str(self.keytab(principal)),
             principal], env=self.env)
        return path


class SecureHdfs(MiniHdfs):
    """See the module. `proxies`: principals (short names) that may ask for others."""

    def __init__(self, directory, nodes, proxies=("phalanx",), **more):
        super().__init__(directory, nodes, **more)
        self.proxies = proxies
        self.kdc = Kdc(self.dir / "kdc")
        self.https = dict(zip(["nn1", *self.nodes], free_ports(1 + len(self.nodes))))
        self.authority = self.dir / "tls/ca.pem"
        self.env = dict(self.kdc.env)
        self.jvm += [f"-Djava.security.krb5.conf={self.kdc.dir}/krb5.conf",
                     "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED"]

    def start(self):
        self.kdc.start()
        self.certificates()
        self.services = self.kdc.keytab(SERVICE, WEB)
        self.env["KRB5CCNAME"] = f"FILE:{self.kdc.ticket(SERVICE)}"
        super().start()

    def close(self):
        super().close()
        self.kdc.close()

    def keytab(self, principal):
        """The keytab of a principal of the realm."""
        return self.kdc.keytab(f"{principal}@{REALM}")

    def certificates(self):
        """An authority, the certificate of localhost by it, and one that signed nothing."""
        tls = self.authority.parent
        tls.mkdir(parents=True, exist_ok=True)
        self.stranger = tls / "stranger.pem"
        for name in (self.authority, self.stranger):
            run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                 f"/CN={name.stem}", "-keyout", str(name.with_suffix(".key")), "-out", str(name)])
        (tls / "san").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        run(["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost",
             "-keyout", f"{tls}/host.key", "-out", f"{tls}/host.csr"])
        run(["openssl", "x509", "-req", "-in", f"{tls}/host.csr", "-CA", str(self.authority),
             "-CAkey", f"{tls}/ca.key", "-CAcreateserial", "-days", "2", "-extfile", f"{tls}/san",
             "-out", f"{tls}/host.pem"])
        run(["openssl", "pkcs12", "-export", "-in", f"{tls}/host.pem", "-inkey", f"{tls}/host.key",
             "-name", "host", "-passout", f"pass:{PASSWORD}", "-out", f"{tls}/host.p12"])

    def write_conf(self):
        super().write_conf()
        store = {"location": self.authority.parent / "host.p12", "password": PASSWORD,
                 "keypassword": PASSWORD, "type": "pkcs12"}
        site(self.conf / "ssl-server.xml",
             {f"ssl.server.keystore.{key}": value for key, value in store.items()})
        site(self.conf / "ssl-client.xml", {})

    def start_datanode(self, node):
        self.datanode_options = [f"-Ddfs.datanode.https.address=localhost:{self.https[node]}"]
        super().start_datanode(node)

    def spawn(self, name, main, arguments, megabytes):
        more = self.datanode_options if name in self.nodes else []
        super().spawn(name, main, [*more, *arguments], megabytes)

    def page(self, url):
        """The same with the ticket of the file system's superuser."""
        url = url.replace("127.0.0.1", "localhost")
        done = subprocess.run(["curl", "-qsf", "--max-time", "3", "--negotiate", "-u", ":", url],
                              env=self.env, capture_output=True, check=False)
        return done.stdout

    def more_core(self):
        proxies = {}
        for name in self.proxies:
            proxies[f"hadoop.proxyuser.{name}.hosts"] = "*"
            proxies[f"hadoop.proxyuser.{name}.users"] = "root,alice"
        return {"hadoop.security.authentication": "kerberos",
                "hadoop.security.authorization": "true",
                "hadoop.http.authentication.type": "kerberos",
                "hadoop.http.authentication.kerberos.principal": WEB,
                "hadoop.http.authentication.kerberos.keytab": self.services,
                "hadoop.http.authentication.simple.anonymous.allowed": "false", **proxies}

    def more_site(self):
        return {
            # Plain HTTP stays for the tests' own look at /jmx; DataNodes must not mind.
            "dfs.http.policy": "HTTP_AND_HTTPS",
            "ignore.secure.ports.for.testing": "true",
            "dfs.namenode.https-address": f"localhost:{self.https['nn1']}",
            "dfs.block.access.token.enable": "true",
            "dfs.data.transfer.protection": "authentication",
            "dfs.namenode.kerberos.principal": SERVICE,
            "dfs.namenode.keytab.file": self.services,
            "dfs.namenode.kerberos.internal.spnego.principal": WEB,
            "dfs.datanode.kerberos.principal": SERVICE,
            "dfs.datanode.keytab.file": self.services,
        }
