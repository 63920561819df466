// SPDX-License-Identifier: GPL-3.0-or-later
//! NameNodes that answer as a test wants, by RPC or HTTP, each in a thread that ends with its
//! connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use prost::Message;

use super::super::proto::{RequestHeader, RpcRequestHeader, RpcResponseHeader};

/// Answer to a request, given its method, its message and the call's id.
pub(super) type Answer = dyn FnMut(&str, &[u8], u32) -> Option<Vec<u8>> + Send;

/// Serves RPC connections, one after the other, until `answer` says `None`, which closes that
/// connection. Gives `host:port`.
pub(super) fn rpc(mut answer: Box<Answer>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // The client may go at any time.
            let _ = serve(stream.unwrap(), &mut answer);
        }
    });
    address
}

fn serve(mut stream: TcpStream, answer: &mut Box<Answer>) -> std::io::Result<()> {
    let mut preamble = [0; 7];
    stream.read_exact(&mut preamble)?;
    assert_eq!(&preamble, b"hrpc\x09\x00\x00");
    let context = frame(&mut stream)?;
    assert!(context.windows(5).any(|part| part == b"alice"), "the job's user is told");
    loop {
        let bytes = frame(&mut stream)?;
        let mut rest = bytes.as_slice();
        let header = RpcRequestHeader::decode_length_delimited(&mut rest).unwrap();
        assert_eq!((header.rpc_kind, header.rpc_op, header.client_id.len()), (2, 0, 16));
        let what = RequestHeader::decode_length_delimited(&mut rest).unwrap();
        let length = prost::decode_length_delimiter(&mut rest).unwrap();
        assert_eq!(length, rest.len());
        let call = u32::try_from(header.call_id).unwrap();
        match answer(&what.method, rest, call) {
            Some(reply) => stream.write_all(&reply)?,
            None => return Ok(()),
        }
    }
}

fn frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; u32::from_be_bytes(length).try_into().unwrap()];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A reply frame.
pub(super) fn reply(call_id: u32, message: &impl Message) -> Vec<u8> {
    let header = RpcResponseHeader { call_id, status: 0, exception: None, message: None };
    framed(&[header.encode_length_delimited_to_vec(), message.encode_length_delimited_to_vec()])
}

/// A refusal.
pub(super) fn refusal(call_id: u32, class: &str) -> Vec<u8> {
    let (exception, message) = (Some(class.to_owned()), Some("no\n\tat java".to_owned()));
    let header = RpcResponseHeader { call_id, status: 1, exception, message };
    framed(&[header.encode_length_delimited_to_vec()])
}

pub(super) fn framed(parts: &[Vec<u8>]) -> Vec<u8> {
    let body = parts.concat();
    [u32::try_from(body.len()).unwrap().to_be_bytes().to_vec(), body].concat()
}

/// Answers each GET with the status and body that `answer` gives for its target.
pub(super) fn http(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let first = lines.next().unwrap().unwrap();
            while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
            let (status, body) = answer(first.split(' ').nth(1).unwrap());
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\
                                Content-Type: application/json\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    address
}
