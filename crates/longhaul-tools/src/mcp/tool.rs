//! A server's tool behind the same trait as every other tool.
//!
//! Owns what the end of a call means for the run: a call that was cut short is done again only if it changes nothing.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Outcome, Trace};
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::Value;

use super::link::Called;
use super::names::line;
use super::pin::Offered;
use super::result;
use super::server::{Put, Server, Visit};
use crate::arguments::invalid;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

pub(super) struct McpTool {
    spec: ToolSpec,
    /// The server's own name for it.
    tool: String,
    server: Arc<Server>,
}

impl McpTool {
    pub(super) fn new(offered: &Offered, server: Arc<Server>) -> McpTool {
        let spec = ToolSpec {
            name: offered.name.clone(),
            description: offered.description.clone(),
            class: offered.class,
            schema: offered.input.clone(),
        };
        McpTool { spec, tool: offered.tool.clone(), server }
    }

    async fn execute(&self, context: &Context, args: &Json) -> Outcome {
        let Value::Object(arguments) = args.value() else {
            return invalid("the arguments are not a JSON object");
        };
        if context.cancel.is_cancelled() {
            return Outcome::failed(Failure::Cancelled, "not started because the run was paused");
        }
        let time = self.server.config.call_time(context.timeout);
        let visit = Visit { run: Some(&context.run), root: context.workspace.root() };
        let put = self.server.call(visit, &self.tool, arguments, time, &context.cancel).await;
        match put {
            Put::NotReached(error) => Outcome::failed(error.failure(), error.to_string()),
            Put::Called(Called::Answered(answer)) => {
                result::outcome(*answer, &self.server.secrets(), Arc::clone(&context.blobs)).await
            }
            Put::Called(Called::Refused(error)) => refused(&error),
            Put::Called(Called::TimedOut) => timed_out(time),
            Put::Called(Called::Cancelled) => cancelled(),
            Put::Called(Called::Cut(why)) => self.cut(&why),
        }
    }

    fn cut(&self, why: &str) -> Outcome {
        let message =
            format!("MCP server `{}` broke off: {why}; the next call starts afresh", self.server.name);
        match self.spec.class {
            // Nothing was changed, so it may be asked again.
            EffectClass::Repeatable => Outcome::failed(Failure::Network, message),
            EffectClass::Checkable | EffectClass::Once => Outcome::Unknown { message },
        }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        _traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(self.execute(context, args))
    }

    fn rest<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, ()> {
        Box::pin(self.server.rest(Some(run)))
    }
}

pub(super) fn refused(error: &ErrorData) -> Outcome {
    let failure =
        if error.code == ErrorCode::INVALID_PARAMS { Failure::InvalidArguments } else { Failure::Tool };
    Outcome::failed(failure, line(&error.message))
}

pub(super) fn timed_out(time: Duration) -> Outcome {
    let ms = time.as_millis();
    let message = format!("timed out after {ms} ms; the server was told to stop, but it may have partly run");
    Outcome::failed(Failure::Timeout, message)
}

fn cancelled() -> Outcome {
    Outcome::failed(Failure::Cancelled, "stopped because the run was paused; it may have partly run")
}
