// SPDX-License-Identifier: GPL-3.0-or-later
//! A connection of Hadoop RPC version 9 with SIMPLE authentication: a call at a time.
//!
//! Frames: a length of four bytes, big endian, then protocol buffers, each with its own length
//! before it. Nothing larger than [`HDFS_FRAME_BYTES_MAX`] is taken.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use prost::Message;

use super::error::HdfsError;
use super::proto::{
    CallerContext, IpcConnectionContext, RequestHeader, RpcRequestHeader, RpcResponseHeader,
    UserInformation,
};
use phalanx_core::limits::HDFS_FRAME_BYTES_MAX;
use phalanx_core::number::as_u32;

const PROTOCOL: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";
/// Preamble of a connection: `hrpc`, version 9, service class 0, SIMPLE authentication.
const PREAMBLE: [u8; 7] = *b"hrpc\x09\x00\x00";
/// Call id of the connection's context.
const CONTEXT_CALL: i32 = -3;
/// Value of `RPC_PROTOCOL_BUFFER`.
const KIND: i32 = 2;

/// A connection to a NameNode on behalf of one user.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    client_id: Vec<u8>,
    next_call: i32,
    context: String,
    timeouts: Timeouts,
}

/// Time limits of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timeouts {
    /// Longest wait for a connection.
    pub(super) connect: Duration,
    /// Longest wait for one answer.
    pub(super) call: Duration,
    /// Time at which everything must be over, and the setting behind it.
    pub(super) end: Instant,
    pub(super) key: &'static str,
    /// Longest wait for one answer, and end, once there was a first answer.
    pub(super) later: (Duration, Instant),
}

impl Timeouts {
    /// The time that is left, at most `most`; an error if no time is left.
    pub(super) fn left(&self, most: Duration) -> Result<Duration, HdfsError> {
        let left = self.end.saturating_duration_since(Instant::now()).min(most);
        if left.is_zero() { Err(HdfsError::OutOfTime(self.key)) } else { Ok(left) }
    }

    /// Notes that there was an answer, so that the next one may take longer.
    pub(super) fn answered(&mut self) {
        (self.call, self.end) = self.later;
        self.key = "hdfs.job_ms";
    }
}

impl Connection {
    /// Connects as `user`; `context` stands in the NameNode's audit log.
    pub(super) fn open(
        address: &str,
        user: &str,
        context: &str,
        timeouts: Timeouts,
    ) -> Result<Self, HdfsError> {
        let unreachable = |error: std::io::Error| HdfsError::Unreachable {
            address: address.to_owned(),
            error: error.to_string(),
        };
        let stream = connect(address, &timeouts)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let client_id = client_id(&stream);
        let context = context.to_owned();
        let mut connection = Self { stream, client_id, next_call: 0, context, timeouts };
        let mut hello = PREAMBLE.to_vec();
        let user = UserInformation { effective_user: Some(user.to_owned()) };
        let whom = IpcConnectionContext { user: Some(user), protocol: Some(PROTOCOL.to_owned()) };
        let header = connection.header(CONTEXT_CALL);
        hello.extend(frame(&[
            &header.encode_length_delimited_to_vec(),
            &whom.encode_length_delimited_to_vec(),
        ]));
        let limit = timeouts.left(timeouts.call)?;
        connection.stream.set_write_timeout(Some(limit)).map_err(unreachable)?;
        connection.stream.write_all(&hello).map_err(unreachable)?;
        Ok(connection)
    }

    fn header(&self, call_id: i32) -> RpcRequestHeader {
        let context = CallerContext { context: self.context.clone() };
        RpcRequestHeader {
            rpc_kind: KIND,
            rpc_op: 0,
            call_id,
            client_id: self.client_id.clone(),
            retry_count: -1,
            caller_context: Some(context),
        }
    }

    /// Makes one call; after an error other than [`HdfsError::Remote`] the connection must not be
    /// used again.
    pub(super) fn call<Reply: Message + Default>(
        &mut self,
        method: &str,
        request: &impl Message,
    ) -> Result<Reply, HdfsError> {
        let call_id = self.next_call;
        self.next_call = self.next_call.wrapping_add(1) & i32::MAX;
        let what =
            RequestHeader { method: method.to_owned(), protocol: PROTOCOL.to_owned(), version: 1 };
        let bytes = frame(&[
            &self.header(call_id).encode_length_delimited_to_vec(),
            &what.encode_length_delimited_to_vec(),
            &request.encode_length_delimited_to_vec(),
        ]);
        let timeouts = self.timeouts;
        let broken = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                HdfsError::OutOfTime(timeouts.key)
            }
            _ => HdfsError::Broken(format!("{method}: {error}")),
        };
        let limit = timeouts.left(timeouts.call)?;
        let end = Instant::now() + limit;
        self.stream.set_write_timeout(Some(limit)).map_err(broken)?;
        self.stream.write_all(&bytes).map_err(broken)?;
        let reply = self.receive(end).map_err(broken)?;
        self.timeouts.answered();
        parse(&reply, call_id, method)
    }

    fn receive(&self, end: Instant) -> std::io::Result<Vec<u8>> {
        let mut reader = Until { stream: &self.stream, end };
        let mut length = [0u8; 4];
        reader.read_exact(&mut length)?;
        let length = (u32::from_be_bytes(length)) as usize;
        if length > HDFS_FRAME_BYTES_MAX {
            let text =
                format!("a reply of {length} bytes, at most {HDFS_FRAME_BYTES_MAX} expected");
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, text));
        }
        // Grows as bytes arrive: a length alone allocates nothing.
        let mut reply = Vec::new();
        match reader.take(length as u64).read_to_end(&mut reply)? {
            read if read < length => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(reply),
        }
    }
}

/// A stream that gives up at `end`.
struct Until<'s> {
    stream: &'s TcpStream,
    end: Instant,
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

fn connect(address: &str, timeouts: &Timeouts) -> Result<TcpStream, HdfsError> {
    let unreachable = |error: String| HdfsError::Unreachable { address: address.to_owned(), error };
    let known: Vec<SocketAddr> =
        address.to_socket_addrs().map_err(|e| unreachable(e.to_string()))?.collect();
    let mut last = "no address".to_owned();
    for one in known {
        match TcpStream::connect_timeout(&one, timeouts.left(timeouts.connect)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.to_string(),
        }
    }
    Err(unreachable(last))
}

/// Returns sixteen bytes that distinguish this connection: the NameNode's retry cache, which reads
/// them, does not concern calls that change nothing.
fn client_id(stream: &TcpStream) -> Vec<u8> {
    let port = stream.local_addr().map_or(0, |a| a.port());
    let mut id = vec![0u8; 8];
    id.extend(std::process::id().to_be_bytes());
    id.extend(u32::from(port).to_be_bytes());
    id
}

fn frame(parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|p| p.len()).sum();
    let mut bytes = as_u32(length).to_be_bytes().to_vec();
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

pub(super) fn parse<Reply: Message + Default>(
    mut frame: &[u8],
    call_id: i32,
    method: &str,
) -> Result<Reply, HdfsError> {
    let malformed = |error: prost::DecodeError| HdfsError::Broken(format!("{method}: {error}"));
    let header = RpcResponseHeader::decode_length_delimited(&mut frame).map_err(malformed)?;
    if header.status != 0 {
        let class = header.exception.unwrap_or_default();
        let message = header.message.unwrap_or_default();
        let message = message.lines().next().unwrap_or_default().to_owned();
        // A fatal error closes the connection, but says as much as another.
        return Err(HdfsError::Remote { class, message });
    }
    if i64::from(header.call_id) != i64::from(call_id) {
        let text = format!("{method}: an answer to call {}, not {call_id}", header.call_id);
        return Err(HdfsError::Broken(text));
    }
    Reply::decode_length_delimited(&mut frame).map_err(malformed)
}
