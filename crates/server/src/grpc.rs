//! gRPC: the service `otg.Openapi`, by the descriptors of its messages.

use crate::call::{ANSWER_MAX, ApiCall, CALLS, Operation, body_of};
use crate::caller::CallPlace;
use crate::reply::{ApiError, ApiReply, to_text};
use crate::request_body::BodyError;
use bytes::{Buf, BufMut, Bytes};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use otg::model;
use prost_reflect::DynamicMessage;
use prost_reflect::prost::Message;
use serde_json::{Value, json};
use std::pin::Pin;
use tokio_stream::{Stream, StreamExt};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Status, Streaming};

/// Bytes of a message of a streamed response.
const CHUNK_SIZE: usize = 1 << 20;

/// Most bytes in front of the body in a message: its number and its length.
const LENGTH_MAX: usize = 16;

/// What clients call, up to the name.
const SERVICE: &str = "/otg.Openapi/";

/// A message as its bytes.
#[derive(Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(source.copy_to_bytes(source.remaining())))
    }
}

impl From<ApiError> for Status {
    fn from(error: ApiError) -> Self {
        let code = error.grpc_code();
        Self::new(code, String::from_utf8_lossy(&to_text(&error.json(code as i32))))
    }
}

type GrpcAnswer<T> = Pin<Box<dyn Future<Output = Result<tonic::Response<T>, Status>> + Send>>;
type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// One call of a client.
#[derive(Clone)]
struct Handler {
    place: CallPlace,
    call: &'static ApiCall,
}

impl Handler {
    /// Carries out the call. A bare message is the body, others hold it.
    async fn carry_out(self, message: Bytes, is_bare: bool, responds_bare: bool) -> Result<Bytes, Status> {
        let (operation, place) = (self.call.operation, self.place.clone());
        let act = move || {
            let body = self.body(message, is_bare)?;
            self.response(self.place.backend.call(operation, body)?, responds_bare)
        };
        let done = place.gate.run(operation, &place.connection, act).await?;
        place.make_space();
        Ok(place.connection.unread(done))
    }

    fn body(&self, message: Bytes, is_bare: bool) -> Result<Value, ApiError> {
        let Some((request, field)) = self.call.request() else { return Ok(Value::Null) };
        let descriptor = if is_bare { body_of(&request, field) } else { Some(request) };
        let descriptor = descriptor.ok_or_else(|| ApiError::internal("the model has no such message"))?;
        if self.call.operation == Operation::SetConfig {
            otg::check_long_message(&descriptor, &message).map_err(ApiError::all_invalid)?;
        }
        let mut json = otg::read_protobuf(descriptor, message).map_err(ApiError::invalid)?;
        if is_bare {
            return Ok(json);
        }
        Ok(json.get_mut(field).map(Value::take).unwrap_or_else(|| json!({})))
    }

    /// The response message, or its body alone.
    fn response(&self, reply: ApiReply, is_bare: bool) -> Result<Bytes, ApiError> {
        let (response, name) = self.call.response();
        let field = model::field(&response, name);
        let body = match reply {
            ApiReply::Bytes(bytes) => bytes,
            ApiReply::Metrics(table) => table.encode(),
            ApiReply::Json(json) => {
                let body = body_of(&response, name)
                    .ok_or_else(|| ApiError::internal(format!("{name} is not a message")))?;
                model::from_json(body, json).map_err(ApiError::internal)?.encode_to_vec()
            }
        };
        if is_bare {
            return Ok(body.into());
        }
        let mut message = Vec::with_capacity(body.len() + LENGTH_MAX);
        model::put_bytes(field.number(), &body, &mut message);
        Ok(message.into())
    }
}

struct Unary(Handler);

impl tonic::server::UnaryService<Bytes> for Unary {
    type Response = Bytes;
    type Future = GrpcAnswer<Bytes>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let handler = self.0.clone();
        Box::pin(async move {
            Ok(tonic::Response::new(handler.carry_out(request.into_inner(), false, false).await?))
        })
    }
}

struct RequestStream(Handler);

impl tonic::server::ClientStreamingService<Bytes> for RequestStream {
    type Response = Bytes;
    type Future = GrpcAnswer<Bytes>;

    fn call(&mut self, request: tonic::Request<Streaming<Bytes>>) -> Self::Future {
        let handler = self.0.clone();
        Box::pin(async move {
            let (mut chunks, mut body) = (request.into_inner(), Vec::new());
            while let Some(chunk) = chunks.next().await {
                let data = DynamicMessage::decode(model::message("Data"), chunk?);
                let data = data.map_err(|error| Status::invalid_argument(error.to_string()))?;
                let datum = data.get_field_by_name("datum");
                body.extend_from_slice(
                    datum.as_deref().and_then(|datum| datum.as_bytes()).map_or(&[], |b| b),
                );
            }
            Ok(tonic::Response::new(handler.carry_out(body.into(), true, false).await?))
        })
    }
}

struct ResponseStream(Handler);

impl tonic::server::ServerStreamingService<Bytes> for ResponseStream {
    type Response = Bytes;
    type ResponseStream = Chunks;
    type Future = GrpcAnswer<Chunks>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        let handler = self.0.clone();
        Box::pin(async move {
            let body = handler.carry_out(request.into_inner(), false, true).await?;
            let chunks: Vec<Result<Bytes, Status>> =
                body.chunks(CHUNK_SIZE).map(|chunk| Ok(data(chunk))).collect();
            Ok(tonic::Response::new(Box::pin(tokio_stream::iter(chunks)) as Chunks))
        })
    }
}

/// A part of a streamed body.
fn data(chunk: &[u8]) -> Bytes {
    let mut message = DynamicMessage::new(model::message("Data"));
    message.set_field_by_name("datum", prost_reflect::Value::Bytes(Bytes::copy_from_slice(chunk)));
    message.set_field_by_name("chunk_size", prost_reflect::Value::U64(CHUNK_SIZE as u64));
    message.encode_to_vec().into()
}

/// The call of a path, and whether it is the streaming twin.
fn find(path: &str) -> Option<(&'static ApiCall, bool)> {
    let name = path.strip_prefix(SERVICE)?;
    let (name, is_streamed) = name.strip_prefix("stream").map_or((name, false), |name| (name, true));
    Some((CALLS.iter().find(|call| call.name == name)?, is_streamed))
}

impl From<BodyError> for Status {
    fn from(error: BodyError) -> Self {
        let text = error.to_string();
        match error {
            BodyError::TooLong(_) | BodyError::Busy => Self::resource_exhausted(text),
            BodyError::Late(_) => Self::deadline_exceeded(text),
            BodyError::Cut(_) => Self::cancelled(text),
        }
    }
}

pub(crate) async fn answer(place: CallPlace, request: Request<Incoming>) -> Response<tonic::body::Body> {
    let Some((call, is_streamed)) = find(request.uri().path()) else {
        let error = ApiError::unsupported(format!("there is no call {}", request.uri().path()));
        return Status::from(error).into_http();
    };
    let (head, body) = request.into_parts();
    let (body, share) = place.bodies.bound(body);
    let request = Request::from_parts(head, body.map_err(Status::from));
    let connection = place.connection.clone();
    let grpc = tonic::server::Grpc::new(Raw);
    let message_max = place.bodies.max();
    let mut grpc = grpc.max_decoding_message_size(message_max).max_encoding_message_size(ANSWER_MAX);
    let handler = Handler { place, call };
    let response = match is_streamed {
        false => grpc.unary(Unary(handler), request).await,
        true if call.streams_request() => grpc.client_streaming(RequestStream(handler), request).await,
        true => grpc.server_streaming(ResponseStream(handler), request).await,
    };
    drop(share);
    // What waits for the client to read it counts, too.
    response.map(|body| {
        tonic::body::Body::new(body.map_frame(move |frame| frame.map_data(|data| connection.unread(data))))
    })
}
