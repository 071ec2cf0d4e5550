//! `bash_output`: what a command in the background has printed since it was last asked.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Outcome, Trace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{invalid, parse, schema};
use crate::jobs::Jobs;
use crate::limits;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// What `bash` answered when it was started; all are listed if left out.
    id: Option<String>,
    /// Milliseconds to wait for something new or the end, at most 60000.
    wait_ms: Option<u64>,
}

pub struct BashOutput {
    spec: ToolSpec,
    jobs: Arc<Jobs>,
}

impl BashOutput {
    pub(crate) fn new(jobs: Arc<Jobs>) -> BashOutput {
        let spec = ToolSpec {
            name: "bash_output".to_owned(),
            description: "Shows what a command in the background has printed since the last look, and whether it still runs."
                .to_owned(),
            // What was shown is not shown again, so a look that was cut short cannot be repeated.
            class: EffectClass::Once,
            schema: schema::<Args>(),
        };
        BashOutput { spec, jobs }
    }

    async fn look(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let Args { id, wait_ms } = parse(args, &self.spec.schema)?;
        let max = limits::JOB_WAIT_MAX.as_millis() as u64;
        if wait_ms.is_some_and(|wait| wait > max) {
            return Err(invalid(format!("`wait_ms` must be at most {max}")));
        }
        match id {
            Some(id) => self.jobs.look(context, &id, wait_ms.map(Duration::from_millis)).await,
            None => Ok(self.jobs.list(context, wait_ms.map(Duration::from_millis)).await),
        }
    }
}

impl Tool for BashOutput {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        _traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.look(context, args).await.unwrap_or_else(|outcome| outcome) })
    }
}
