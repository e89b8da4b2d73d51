//! The calls of the API: their paths, messages and fields.

use prost_reflect::MessageDescriptor;

/// Most bytes of an answer.
pub(crate) const ANSWER_MAX: usize = 1 << 30;

/// A call of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Replaces the configuration.
    SetConfig,
    /// The configuration in force.
    GetConfig,
    /// Changes rates and sizes of flows.
    UpdateConfig,
    /// Adds flows.
    AppendConfig,
    /// Removes flows.
    DeleteConfig,
    /// Starts and stops flows, captures and links.
    SetControlState,
    /// Actions of protocols and ports.
    SetControlAction,
    /// Counts and rates.
    GetMetrics,
    /// Neighbours.
    GetStates,
    /// The file of a capture.
    GetCapture,
    /// Version of the API.
    GetVersion,
}

/// How a call looks on the transports.
#[derive(Debug)]
pub struct ApiCall {
    /// What it does.
    pub operation: Operation,
    /// Its name in gRPC; `stream` in front of it is its streaming twin.
    pub name: &'static str,
    /// Its method in HTTP.
    pub method: &'static str,
    /// Its path in HTTP.
    pub path: &'static str,
    /// The request message and the field of its body; none for calls without a body.
    request: Option<(&'static str, &'static str)>,
    /// The field of the response message that holds the body.
    response_field: &'static str,
}

const fn call(
    operation: Operation,
    name: &'static str,
    [method, path]: [&'static str; 2],
    request: Option<(&'static str, &'static str)>,
    response_field: &'static str,
) -> ApiCall {
    ApiCall { operation, name, method, path, request, response_field }
}

pub(crate) const CALLS: [ApiCall; 11] = [
    call(
        Operation::SetConfig,
        "SetConfig",
        ["POST", "/config"],
        Some(("SetConfigRequest", "config")),
        "warning",
    ),
    call(Operation::GetConfig, "GetConfig", ["GET", "/config"], None, "config"),
    call(
        Operation::UpdateConfig,
        "UpdateConfig",
        ["PATCH", "/config"],
        Some(("UpdateConfigRequest", "config_update")),
        "warning",
    ),
    call(
        Operation::AppendConfig,
        "AppendConfig",
        ["PATCH", "/config/append"],
        Some(("AppendConfigRequest", "config_append")),
        "warning",
    ),
    call(
        Operation::DeleteConfig,
        "DeleteConfig",
        ["PATCH", "/config/delete"],
        Some(("DeleteConfigRequest", "config_delete")),
        "warning",
    ),
    call(
        Operation::SetControlState,
        "SetControlState",
        ["POST", "/control/state"],
        Some(("SetControlStateRequest", "control_state")),
        "warning",
    ),
    call(
        Operation::SetControlAction,
        "SetControlAction",
        ["POST", "/control/action"],
        Some(("SetControlActionRequest", "control_action")),
        "control_action_response",
    ),
    call(
        Operation::GetMetrics,
        "GetMetrics",
        ["POST", "/monitor/metrics"],
        Some(("GetMetricsRequest", "metrics_request")),
        "metrics_response",
    ),
    call(
        Operation::GetStates,
        "GetStates",
        ["POST", "/monitor/states"],
        Some(("GetStatesRequest", "states_request")),
        "states_response",
    ),
    call(
        Operation::GetCapture,
        "GetCapture",
        ["POST", "/monitor/capture"],
        Some(("GetCaptureRequest", "capture_request")),
        "response_bytes",
    ),
    call(Operation::GetVersion, "GetVersion", ["GET", "/capabilities/version"], None, "version"),
];

impl ApiCall {
    /// True for calls whose streaming twin streams the request: the others stream the response.
    pub(crate) fn streams_request(&self) -> bool {
        self.name.starts_with("Set")
    }

    /// The request message in gRPC, and the name of its field.
    pub(crate) fn request(&self) -> Option<(MessageDescriptor, &'static str)> {
        self.request.map(|(message, field)| (otg::model::message(message), field))
    }

    /// The message of the body.
    pub(crate) fn body(&self) -> Option<MessageDescriptor> {
        let (message, field) = self.request()?;
        body_of(&message, field)
    }

    /// The response message in gRPC, and the name of its field.
    pub(crate) fn response(&self) -> (MessageDescriptor, &'static str) {
        (otg::model::message(&format!("{}Response", self.name)), self.response_field)
    }
}

/// The message of a field.
pub(crate) fn body_of(message: &MessageDescriptor, field: &str) -> Option<MessageDescriptor> {
    message.get_field_by_name(field)?.kind().as_message().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_fit_the_model() {
        for call in &CALLS {
            assert_eq!(call.body().is_some(), call.request.is_some(), "{}", call.name);
            let (message, field) = call.response();
            assert!(message.get_field_by_name(field).is_some(), "{}", call.name);
        }
    }
}
