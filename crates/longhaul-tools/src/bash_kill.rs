//! `bash_kill`: ends a command in the background.

use std::sync::Arc;

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Outcome, Trace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{parse, schema};
use crate::jobs::Jobs;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// What `bash` answered when it was started.
    id: String,
}

pub struct BashKill {
    spec: ToolSpec,
    jobs: Arc<Jobs>,
}

impl BashKill {
    pub(crate) fn new(jobs: Arc<Jobs>) -> BashKill {
        let spec = ToolSpec {
            name: "bash_kill".to_owned(),
            description: "Ends a command in the background with everything it started, and shows the rest of what it printed."
                .to_owned(),
            class: EffectClass::Once,
            schema: schema::<Args>(),
        };
        BashKill { spec, jobs }
    }
}

impl Tool for BashKill {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        _traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let killed = async {
                let Args { id } = parse(args, &self.spec.schema)?;
                self.jobs.kill(context, &id).await
            };
            killed.await.unwrap_or_else(|outcome| outcome)
        })
    }
}
