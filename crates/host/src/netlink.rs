//! Netlink requests, one at a time.
//!
//! A netlink socket belongs to the namespace it was opened in, whichever thread uses it.

use crate::{HostError, KernelError};
use netlink_packet_core::{
    ErrorMessage, NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer,
    NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable, NlasIterator,
};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io;

/// Attempts to read a listing that changes meanwhile.
const TRIES: usize = 8;
/// `NLMSGERR_ATTR_MSG`: the text of an extended acknowledgement.
const ERROR_TEXT: u16 = 1;
/// Length of `struct nlmsghdr`.
const HEADER_LEN: usize = 16;

/// A failed request; becomes a [`HostError`] with act and object.
#[derive(Debug)]
pub(crate) enum RequestFailure {
    Kernel(KernelError),
    Unreadable(String),
}

impl RequestFailure {
    /// For `map_err`: adds act and object.
    pub(crate) fn on(act: &'static str, object: impl Into<String>) -> impl FnOnce(Self) -> HostError {
        let object = object.into();
        move |failure| match failure {
            Self::Kernel(source) => HostError::Refused { act, object, source },
            Self::Unreadable(why) => HostError::Unreadable { act, object, why },
        }
    }
}

impl From<io::Error> for RequestFailure {
    fn from(error: io::Error) -> Self {
        Self::Kernel(error.into())
    }
}

/// Opens a socket for `protocol` (`NETLINK_ROUTE`, ...) in the namespace of the calling thread.
pub(crate) fn open_socket(protocol: isize) -> io::Result<Socket> {
    let mut socket = Socket::new(protocol)?;
    socket.bind_auto()?;
    Ok(socket)
}

/// Multicast groups of rtnetlink (`RTNLGRP_*`): changes of devices and of neighbours.
pub(crate) const GROUP_LINK: u32 = 1;
pub(crate) const GROUP_NEIGHBOUR: u32 = 3;

/// Opens a socket that receives the events of a group in the namespace of the calling thread.
pub(crate) fn subscribe(group: u32) -> io::Result<Socket> {
    let socket = open_socket(NETLINK_ROUTE)?;
    socket.add_membership(group)?;
    Ok(socket)
}

/// A socket with at most one request in progress.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// In the namespace of the calling thread.
    pub(crate) fn open(protocol: isize) -> io::Result<Self> {
        let socket = open_socket(protocol)?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // Error texts (4.12), without the request in front of them; older kernels do not support
        // it.
        let _ = socket.set_ext_ack(true);
        let _ = socket.set_cap_ack(true);
        Ok(Self { socket, sequence: 0 })
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Sends a request and returns the answer before its acknowledgement.
    pub(crate) fn ask<M>(&mut self, request: M, flags: u16) -> Result<Vec<M>, RequestFailure>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        self.send(request, flags | NLM_F_ACK)?;
        Ok(self.receive()?.0)
    }

    /// Sends a request and returns the whole listing, consistent if possible.
    pub(crate) fn list<M>(&mut self, request: M) -> Result<Vec<M>, RequestFailure>
    where
        M: NetlinkSerializable + NetlinkDeserializable + Clone,
    {
        let mut last = Vec::new();
        for _ in 0..TRIES {
            self.send(request.clone(), NLM_F_DUMP)?;
            let (rows, interrupted) = self.receive()?;
            if !interrupted {
                return Ok(rows);
            }
            last = rows;
        }
        // If devices change all the time, an inconsistent listing is better than none.
        Ok(last)
    }

    fn send<M: NetlinkSerializable>(&mut self, request: M, flags: u16) -> Result<(), RequestFailure> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        Ok(())
    }

    /// Everything up to the end of the answer, and whether it changed meanwhile.
    fn receive<M: NetlinkDeserializable>(&mut self) -> Result<(Vec<M>, bool), RequestFailure> {
        let mut rows = Vec::new();
        let mut interrupted = false;
        loop {
            let bytes = receive_datagram(&self.socket)?;
            for message in Messages(&bytes).typed::<M>() {
                let (header, payload) = message?;
                if header.sequence_number != self.sequence {
                    continue; // the rest of an earlier answer
                }
                interrupted |= header.flags & NLM_F_DUMP_INTR != 0;
                match payload {
                    NetlinkPayload::Done(done) if done.code < 0 => {
                        return Err(RequestFailure::Kernel(KernelError { errno: -done.code, detail: None }));
                    }
                    NetlinkPayload::Done(_) => return Ok((rows, interrupted)),
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(RequestFailure::Kernel(read_refusal(&error)));
                    }
                    NetlinkPayload::Error(_) => return Ok((rows, interrupted)),
                    NetlinkPayload::InnerMessage(row) => rows.push(row),
                    _ => {}
                }
            }
        }
    }
}

/// One datagram of any length.
pub(crate) fn receive_datagram(socket: &Socket) -> io::Result<Vec<u8>> {
    loop {
        match socket.recv_from_full() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map(|(bytes, _)| bytes),
        }
    }
}

/// The messages in one datagram.
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl Messages<'_> {
    /// The next message, typed by the caller; `None` at the end.
    fn take<M: NetlinkDeserializable>(
        &mut self,
    ) -> Option<Result<(NetlinkHeader, NetlinkPayload<M>), RequestFailure>> {
        if self.0.is_empty() {
            return None;
        }
        let unreadable = |why: String| Some(Err(RequestFailure::Unreadable(why)));
        let len = match NetlinkBuffer::new_checked(self.0) {
            Ok(buffer) => buffer.length() as usize,
            Err(why) => {
                self.0 = &[];
                return unreadable(why.to_string());
            }
        };
        let (this, rest) = self.0.split_at(len);
        self.0 = rest.get((4 - len % 4) % 4..).unwrap_or_default();
        match NetlinkMessage::<M>::deserialize(this) {
            Ok(message) => Some(Ok((message.header, message.payload))),
            Err(why) => unreadable(why.to_string()),
        }
    }

    /// Reads them as type `M`.
    pub(crate) fn typed<M: NetlinkDeserializable>(
        mut self,
    ) -> impl Iterator<Item = Result<(NetlinkHeader, NetlinkPayload<M>), RequestFailure>> {
        std::iter::from_fn(move || self.take())
    }
}

fn read_refusal(error: &ErrorMessage) -> KernelError {
    // With NETLINK_CAP_ACK only the header of the request precedes the text.
    let attributes = error.header.get(HEADER_LEN..).unwrap_or_default();
    let detail = NlasIterator::new(attributes)
        .filter_map(Result::ok)
        .find(|attribute| attribute.kind() == ERROR_TEXT)
        .map(|attribute| text(attribute.value()));
    KernelError { errno: -error.raw_code(), detail }
}

/// A string attribute, with or without its zero byte.
pub(crate) fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()
}
