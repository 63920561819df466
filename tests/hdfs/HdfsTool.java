// SPDX-License-Identifier: GPL-3.0-or-later
// One JVM that does what the tests need done in a real HDFS: a command a line on standard input,
// `ok [RESULT]` or `error MESSAGE` a line on standard output. Numbers are bytes.
//   create PATH SIZE BLOCKSIZE REPLICATION [HOST:PORT...]
//                              a file of text lines; its replicas on these DataNodes alone
//   load LOCAL PATH BLOCKSIZE REPLICATION [HOST:PORT...]    the same, copy of a local file
//   grow PATH SIZE BLOCKSIZE                                as create, synced and left open
//   mkdir PATH | delete PATH | chmod PATH OCTAL | chown PATH USER | replicate PATH N
//   link PATH TARGET
//   policy PATH NAME                                        erasure coding policy of a directory
//   claim PATH REPLICAS HOST:PORT...
//                              tells the NameNode that these DataNodes hold the file's blocks, in
//                              turns
//   as USER                                                 who does what follows
import java.io.*;
import java.net.*;
import java.nio.charset.StandardCharsets;
import java.security.PrivilegedExceptionAction;
import java.util.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.*;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DFSClient;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocolPB.DatanodeProtocolClientSideTranslatorPB;
import org.apache.hadoop.hdfs.security.token.block.ExportedBlockKeys;
import org.apache.hadoop.hdfs.server.protocol.*;
import org.apache.hadoop.security.UserGroupInformation;

public class HdfsTool {
    static final int TRIES = 60, LOOKS = 20;    // a file, and at where it lies after each
    static final long LOOK_MS = 100, PLACE_NS = 600_000_000_000L;
    static final List<OutputStream> open = new ArrayList<>();
    static DistributedFileSystem fs;

    public static void main(String[] args) throws Exception {
        fs = connect(UserGroupInformation.getCurrentUser());
        BufferedReader in = new BufferedReader(
                new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            try {
                System.out.println("ok " + run(line.trim().split(" ")));
            } catch (Exception e) {
                System.out.println("error " + String.valueOf(e).replace('\n', ' '));
            }
            System.out.flush();
        }
    }

    static DistributedFileSystem connect(UserGroupInformation user) throws Exception {
        return user.doAs((PrivilegedExceptionAction<DistributedFileSystem>) () ->
            (DistributedFileSystem) FileSystem.newInstance(new Configuration()));
    }

    static String run(String[] w) throws Exception {
        Path path = w.length > 1 && w[1].startsWith("/") ? new Path(w[1]) : null;
        switch (w[0]) {
            case "create":
                write(path, w, out -> lines(out, Long.parseLong(w[2])));
                return "";
            case "load":
                write(new Path(w[2]), w, out -> {
                    try (InputStream in = new FileInputStream(w[1])) {
                        in.transferTo(out);
                    }
                });
                return "";
            case "grow": {
                FSDataOutputStream out = fs.create(
                        path, true, 65536, (short) 1, Long.parseLong(w[3]));
                lines(out, Long.parseLong(w[2]));
                out.hsync();
                open.add(out);
                return "";
            }
            case "mkdir": return "" + fs.mkdirs(path);
            case "delete": return "" + fs.delete(path, true);
            case "chmod":
                fs.setPermission(path, new FsPermission(Short.parseShort(w[2], 8)));
                return "";
            case "chown": fs.setOwner(path, w[2], null); return "";
            case "replicate": return "" + fs.setReplication(path, Short.parseShort(w[2]));
            case "policy": // Absent from Hadoop 2.
                fs.getClass().getMethod("enableErasureCodingPolicy", String.class).invoke(fs, w[2]);
                fs.getClass().getMethod("setErasureCodingPolicy", Path.class, String.class)
                    .invoke(fs, path, w[2]);
                return "";
            case "claim":
                claim(w[1], Integer.parseInt(w[2]), Arrays.asList(w).subList(3, w.length));
                return "";
            case "as":
                fs = connect(UserGroupInformation.createRemoteUser(w[1]));
                return "";
            default: throw new IllegalArgumentException("unknown command " + w[0]);
        }
    }

    interface Content {
        void writeTo(OutputStream out) throws IOException;
    }

    // To name DataNodes is but a hint: instead of one that is busy, or whose storage is not yet
    // known, the NameNode takes others. Such a file is written again.
    static void write(Path path, String[] w, Content content) throws Exception {
        long blockSize = Long.parseLong(w[3]);
        short replicas = Short.parseShort(w[4]);
        List<String> on = Arrays.asList(w).subList(5, w.length);
        long end = System.nanoTime() + PLACE_NS;
        Set<String> where = Set.of();
        for (int tries = 0; tries < TRIES && System.nanoTime() < end; tries++) {
            try (OutputStream out = create(path, blockSize, replicas, on)) {
                content.writeTo(out);
            }
            // The second replica is known later than the file is closed.
            for (int looks = 0; looks < LOOKS; looks++) {
                where = on.isEmpty() ? Set.of() : elsewhere(path, replicas, on);
                if (where.isEmpty()) return;
                Thread.sleep(LOOK_MS);
            }
            fs.delete(path, false);
        }
        throw new IOException(path + ": blocks are on " + where + " again and again, not on " + on);
    }

    static OutputStream create(Path path, long blockSize, short replicas, List<String> on)
            throws IOException {
        if (on.isEmpty()) return fs.create(path, true, 65536, replicas, blockSize);
        InetSocketAddress[] favoured = new InetSocketAddress[on.size()];
        for (int i = 0; i < favoured.length; i++) {
            String[] hp = on.get(i).split(":");
            favoured[i] = new InetSocketAddress(hp[0], Integer.parseInt(hp[1]));
        }
        return fs.create(path, FsPermission.getFileDefault(), true, 65536, replicas, blockSize,
                null, favoured);
    }

    // Where the blocks lie that have not all their replicas on these DataNodes.
    static Set<String> elsewhere(Path path, int replicas, List<String> on) throws IOException {
        Set<String> found = new TreeSet<>();
        long length = fs.getFileStatus(path).getLen();
        for (BlockLocation block : fs.getFileBlockLocations(path, 0, length)) {
            List<String> names = Arrays.asList(block.getNames());
            if (names.size() != replicas || !on.containsAll(names)) found.addAll(names);
        }
        return found;
    }

    // What the DataNodes would report if they had got these blocks; they have not.
    static void claim(String path, int replicas, List<String> order) throws Exception {
        DFSClient client = fs.getClient();
        URI uri = fs.getUri();
        DatanodeProtocolClientSideTranslatorPB namenode =
                new DatanodeProtocolClientSideTranslatorPB(
            new InetSocketAddress(uri.getHost(), uri.getPort()), fs.getConf());
        NamespaceInfo namespace = namenode.versionRequest();
        DatanodeStorageReport[] known =
                client.getDatanodeStorageReport(HdfsConstants.DatanodeReportType.LIVE);
        long length = fs.getFileStatus(new Path(path)).getLen();
        long size = fs.getFileStatus(new Path(path)).getBlockSize();
        long page = 10000 * size;
        for (long from = 0; from < length; from += page) {
            List<LocatedBlock> blocks =
                    client.getLocatedBlocks(path, from, page).getLocatedBlocks();
            for (int at = 0; at < order.size(); at++) {
                List<ReceivedDeletedBlockInfo> held = new ArrayList<>();
                for (LocatedBlock block : blocks) {
                    long turn = (block.getStartOffset() / size + order.size() - at) % order.size();
                    if (turn < replicas) {
                        held.add(new ReceivedDeletedBlockInfo(block.getBlock().getLocalBlock(),
                            ReceivedDeletedBlockInfo.BlockStatus.RECEIVED_BLOCK, null));
                    }
                }
                for (DatanodeStorageReport report : known) {
                    if (order.get(at).equals(report.getDatanodeInfo().getXferAddr())) {
                        namenode.blockReceivedAndDeleted(
                            new DatanodeRegistration(report.getDatanodeInfo(), namespace,
                                new ExportedBlockKeys(), namespace.getSoftwareVersion()),
                            namespace.getBlockPoolID(),
                            new StorageReceivedDeletedBlocks[] {new StorageReceivedDeletedBlocks(
                                report.getStorageReports()[0].getStorage(),
                                held.toArray(new ReceivedDeletedBlockInfo[0]))});
                    }
                }
            }
        }
        for (int tries = 0;
                fs.getFileBlockLocations(new Path(path), length - 1, 1)[0].getHosts().length
                        < replicas; ) {
            if (++tries > 300) throw new IOException("the NameNode does not believe it");
            Thread.sleep(100);
        }
    }

    // Lines of 64 bytes, numbered, the last one cut: readers can tell what they read.
    static void lines(OutputStream out, long size) throws IOException {
        byte[] text = new byte[65536];
        for (long done = 0; done < size; ) {
            StringBuilder chunk = new StringBuilder();
            for (int i = 0; i < 1024; i++) {
                chunk.append(String.format("%015d %47s%n", done / 64 + i,
                        "lorem ipsum dolor sit amet consectetur elit"));
            }
            text = chunk.toString().getBytes(StandardCharsets.US_ASCII);
            int n = (int) Math.min(text.length, size - done);
            out.write(text, 0, n);
            done += n;
        }
    }
}
