// SPDX-License-Identifier: Apache-2.0

//! The socket: requests are sent until they are answered, and those of the UPF are accepted.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use rs_pfcp::ie::{fseid::Fseid, IeType};
use rs_pfcp::message::{Message, MsgType};
use rs_pfcp::SequenceNumber;

use crate::check::{self, Received};
use crate::{rules, show, Outcome};

/// T1 and N1 (TS 29.244 6.4): when a request is sent again, and how often.
const T1: Duration = Duration::from_secs(1);
const N1: usize = 20;

pub struct Smf {
    node: Node,
    upf: SocketAddr,
    socket: Arc<UdpSocket>,
    responses: Receiver<Received>,
    sequence: u32,
}

/// What the SMF says of itself.
#[derive(Clone, Copy)]
pub struct Node {
    pub address: Ipv4Addr,
    pub recovery: SystemTime,
}

impl Smf {
    /// Opens the socket and answers requests from then on.
    pub fn start(local: Ipv4Addr, upf: Ipv4Addr) -> Outcome<Self> {
        let socket = Arc::new(UdpSocket::bind((local, 8805))?);
        let node = Node { address: local, recovery: SystemTime::now() };
        let (found, responses) = channel();
        let listening = Arc::clone(&socket);
        thread::spawn(move || receive(&listening, node, &found));
        Ok(Smf { node, upf: (upf, 8805).into(), socket, responses, sequence: 0 })
    }

    pub fn node(&self) -> Node {
        self.node
    }

    /// Sends a request until it is answered, and prints the response.
    pub fn ask(&mut self, request: Outcome<Box<dyn Message>>) -> Outcome<()> {
        let mut request = request?;
        self.sequence += 1;
        request.set_sequence(SequenceNumber::new(self.sequence));
        let bytes = request.marshal();
        for _ in 0..N1 {
            self.socket.send_to(&bytes, self.upf)?;
            while let Ok(response) = self.responses.recv_timeout(T1) {
                if response.header.sequence_number != request.sequence() {
                    continue; // to a request that was sent again
                }
                println!("response {}", show::line(&response));
                return match response.header.message_type as u8 == request.msg_type() as u8 + 1 {
                    true => Ok(()),
                    false => {
                        Err(format!("{:?} was answered with {:?}", request.msg_type(), response.header.message_type)
                            .into())
                    }
                };
            }
        }
        Err(format!("{:?} was not answered", request.msg_type()).into())
    }
}

/// Responses have even types, but for those of sessions.
fn is_response(kind: MsgType) -> bool {
    let kind = kind as u8;
    kind != MsgType::VersionNotSupportedResponse as u8
        && kind.is_multiple_of(2) == (kind < MsgType::VersionNotSupportedResponse as u8)
}

/// Takes messages from the socket.
fn receive(socket: &UdpSocket, node: Node, responses: &Sender<Received>) {
    let mut buffer = [0; 65536];
    let mut sessions = HashMap::new(); // the UPF's SEIDs by those of the SMF
    while let Ok((n, from)) = socket.recv_from(&mut buffer) {
        let (received, faults) = match check::read(&buffer[..n]) {
            Ok(read) => read,
            Err(why) => {
                println!("fault message {:02x?}: {why}", &buffer[..n]);
                continue;
            }
        };
        for fault in faults {
            println!("fault {:?}: {fault}", received.header.message_type);
        }
        if let Some(Ok(up)) = received.first(IeType::Fseid).map(|ie| ie.parse::<Fseid>()) {
            sessions.insert(received.header.seid, *up.seid);
        }
        if is_response(received.header.message_type) {
            let _ = responses.send(received); // the program ends
            continue;
        }
        println!("request {}", show::line(&received));
        let seid = sessions.get(&received.header.seid).copied().unwrap_or_default();
        match rules::acceptance(node, seid, &received) {
            Ok(answer) => {
                let _ = socket.send_to(&answer.marshal(), from); // the UPF asks again
            }
            Err(why) => println!("fault {:?}: {why}", received.header.message_type),
        }
    }
}
