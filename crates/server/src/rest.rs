//! HTTP: a path per call, JSON bodies.

use crate::ApiBackend;
use crate::call::{ApiCall, CALLS, Operation};
use crate::caller::CallPlace;
use crate::origin::is_odd_body;
use crate::reply::{ApiError, ApiReply, metrics_text, to_text};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::sync::Arc;

const JSON: &str = "application/json";

pub(crate) async fn answer(place: CallPlace, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let call = match find(request.method().as_str(), request.uri().path()) {
        Ok(call) => call,
        Err((status, error)) => return refuse(status, error),
    };
    if is_odd_body(request.headers()) {
        let text = "a page sends bodies of the type application/json only";
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, text.to_owned());
    }
    let (body, share) = place.bodies.bound(request.into_body());
    let body = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return refuse(error.status(), error.to_string()),
    };
    let backend = Arc::clone(&place.backend);
    // A call may wait for frames; other connections are served meanwhile.
    let act = move || {
        let done = carry_out(&*backend, call, body);
        drop(share);
        // The text of a large answer takes time, too.
        Ok(text_of(done))
    };
    let done = place.gate.run(call.operation, &place.connection, act).await;
    let (status, content_type, text) = done.unwrap_or_else(|error| text_of(Err(error)));
    place.make_space();
    respond(status, content_type, place.connection.unread(text))
}

/// Status, content type and body of an answer.
fn text_of(done: Result<ApiReply, ApiError>) -> (StatusCode, &'static str, Vec<u8>) {
    match done {
        Ok(ApiReply::Json(value)) => (StatusCode::OK, JSON, to_text(&value)),
        Ok(ApiReply::Metrics(table)) => (StatusCode::OK, JSON, metrics_text(&table)),
        Ok(ApiReply::Bytes(bytes)) => (StatusCode::OK, "application/octet-stream", bytes),
        Err(error) => {
            let status = error.status();
            (status, JSON, to_text(&error.json(status.as_u16().into())))
        }
    }
}

/// The call of a method and a path.
fn find(method: &str, path: &str) -> Result<&'static ApiCall, (StatusCode, String)> {
    if let Some(call) = CALLS.iter().find(|call| call.path == path && call.method == method) {
        return Ok(call);
    }
    Err(match CALLS.iter().any(|call| call.path == path) {
        true => (StatusCode::METHOD_NOT_ALLOWED, format!("{path} has no method {method}")),
        false => (StatusCode::NOT_FOUND, format!("there is no {path}")),
    })
}

fn carry_out(backend: &dyn ApiBackend, call: &ApiCall, body: Bytes) -> Result<ApiReply, ApiError> {
    let body = match call.body() {
        // Clients send a content type and no body.
        None => Value::Null,
        Some(message) => {
            if call.operation == Operation::SetConfig {
                otg::check_long_config(&body).map_err(ApiError::all_invalid)?;
            }
            let json = otg::read_json(message, &body).map_err(ApiError::invalid)?;
            drop(body);
            json
        }
    };
    backend.call(call.operation, body)
}

pub(crate) fn refuse(status: StatusCode, error: String) -> Response<Full<Bytes>> {
    let body = json!({"code": status.as_u16(), "kind": "validation", "errors": [error]});
    respond(status, JSON, to_text(&body).into())
}

fn respond(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, content_type);
    response.body(Full::new(body)).expect("status and content type are valid")
}
