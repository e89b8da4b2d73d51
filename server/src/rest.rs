//! HTTP: a path per call, JSON bodies.

use crate::ApiBackend;
use crate::call::{ApiCall, BODY_MAX, CALLS};
use crate::origin::is_odd_body;
use crate::reply::{ApiError, ApiReply, metrics_text, to_text};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use std::sync::Arc;

const JSON: &str = "application/json";

pub(crate) async fn answer(
    backend: Arc<dyn ApiBackend>,
    request: Request<Incoming>,
) -> Response<Full<Bytes>> {
    let call = match find(request.method().as_str(), request.uri().path()) {
        Ok(call) => call,
        Err((status, error)) => return refuse(status, error),
    };
    if is_odd_body(request.headers()) {
        let text = "a page sends bodies of the type application/json only";
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, text.to_owned());
    }
    let Ok(body) = Limited::new(request.into_body(), BODY_MAX).collect().await else {
        let text = format!("the body is cut, or longer than {BODY_MAX} bytes");
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, text);
    };
    let body = body.to_bytes();
    // A call may wait for frames; other connections are served meanwhile.
    let done = tokio::task::spawn_blocking(move || respond_to(carry_out(&*backend, call, &body))).await;
    done.unwrap_or_else(|error| respond_to(Err(ApiError::internal(format!("{}: {error}", call.name)))))
}

fn respond_to(done: Result<ApiReply, ApiError>) -> Response<Full<Bytes>> {
    match done {
        Ok(ApiReply::Json(value)) => respond(StatusCode::OK, JSON, to_text(&value)),
        Ok(ApiReply::Metrics(table)) => respond(StatusCode::OK, JSON, metrics_text(&table)),
        Ok(ApiReply::Bytes(bytes)) => respond(StatusCode::OK, "application/octet-stream", bytes),
        Err(error) => {
            let status = error.status();
            respond(status, JSON, to_text(&error.json(status.as_u16().into())))
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

fn carry_out(backend: &dyn ApiBackend, call: &ApiCall, body: &[u8]) -> Result<ApiReply, ApiError> {
    let body = match call.body() {
        // Clients send a content type and no body.
        None => Value::Null,
        Some(message) => {
            let message = otg::model::parse_json(message, body).map_err(ApiError::invalid)?;
            otg::model::to_json(&message)
        }
    };
    backend.call(call.operation, body)
}

pub(crate) fn refuse(status: StatusCode, error: String) -> Response<Full<Bytes>> {
    let body = json!({"code": status.as_u16(), "kind": "validation", "errors": [error]});
    respond(status, JSON, to_text(&body))
}

fn respond(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, content_type);
    response.body(Full::new(body.into())).expect("status and content type are valid")
}
