//! A run, a directory for what is accepted, and servers to call.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use longhaul_core::json::Json;
use longhaul_core::tool::Outcome;
use longhaul_tools::Tool;
use longhaul_tools::mcp::{Options, ServerConfig, Servers};
use serde_json::{Value, json};

use crate::fixture::Fixture;

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Rig {
    pub fixture: Fixture,
    pub servers: Servers,
    pub heard: Arc<Mutex<Vec<String>>>,
}

impl Rig {
    /// A rig with one server `srv`, which nobody has met yet.
    pub fn new(server: Value) -> Rig {
        Rig::over(Fixture::new(), server)
    }

    pub fn over(fixture: Fixture, server: Value) -> Rig {
        let config: ServerConfig = serde_json::from_value(server).unwrap();
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .chain([
                ("LONGHAUL_TEST_KEY".to_owned(), "sk-canary-of-a-provider".to_owned()),
                ("LONGHAUL_TEST_TOKEN".to_owned(), "canary-of-a-token".to_owned()),
            ]);
        let options = Options {
            dir: Some(fixture.outer.path().join("state/mcp")),
            base_dir: fixture.outer.path().to_owned(),
            environment: environment.collect(),
            withheld: BTreeSet::from(["LONGHAUL_TEST_KEY".to_owned()]),
            strike: Arc::new(|text| text.replace("sk-canary-of-a-provider", "[secret]")),
            // What holds servers is tested with the program that holds them.
            sandbox: longhaul_tools::Sandbox::off(),
        };
        let servers = Servers::new(BTreeMap::from([("srv".to_owned(), config)]), options).unwrap();
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let listener = Arc::clone(&heard);
        servers.listen(Arc::new(move |line| listener.lock().unwrap().push(line.to_owned())));
        Rig { fixture, servers, heard }
    }

    /// The same run at servers as a process started later would see them.
    pub fn again(self, server: Value) -> Rig {
        Rig::over(self.fixture, server)
    }

    pub fn hostile(mode: &str) -> Rig {
        let fixture = Fixture::new();
        let server = hostile(&fixture, mode);
        Rig::over(fixture, server)
    }

    /// Meets the server and takes its tools.
    pub async fn met(self) -> Rig {
        self.servers.meet("srv").await.unwrap();
        self.servers.keep_met().unwrap();
        self
    }

    pub fn names(&self) -> Vec<String> {
        self.servers.tools().0.iter().map(|tool| tool.spec().name.clone()).collect()
    }

    pub fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let name = format!("srv__{name}");
        let (tools, _) = self.servers.tools();
        tools.into_iter().find(|tool| tool.spec().name == name).unwrap_or_else(|| panic!("no tool {name}"))
    }

    pub async fn call(&self, tool: &str, args: Value) -> Outcome {
        self.tool(tool).run(&self.fixture.context, &Json::of(&args), &[]).await
    }

    /// What the run's end does.
    pub async fn rest(&self) {
        for tool in self.servers.tools().0 {
            tool.rest(&self.fixture.context.run).await;
        }
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.fixture.outer.path().join("state/mcp/srv.log")).unwrap_or_default()
    }

    /// How often the hostile server was started.
    pub fn starts(&self) -> u32 {
        fs::read_to_string(memory(&self.fixture)).map_or(0, |text| text.trim().parse().unwrap())
    }

    /// A file beside the hostile server's memory, once it is there.
    pub async fn file(&self, suffix: &str) -> String {
        let path = format!("{}.{suffix}", memory(&self.fixture).display());
        let started = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(&path) {
                return text;
            }
            assert!(started.elapsed() < PATIENCE, "{path} did not come");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Processes of this rig's run or directory that are alive.
    pub fn alive(&self) -> Vec<i32> {
        let word = self.fixture.outer.path().display().to_string();
        let mark = format!("LONGHAUL_RUN={}", self.fixture.context.run);
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            let has = |file: &str, part: &str| {
                let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                String::from_utf8_lossy(&bytes).contains(part)
            };
            has("cmdline", &word) || has("environ", &mark)
        })
        .collect()
    }
}

pub fn hostile(fixture: &Fixture, mode: &str) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/hostile.py");
    json!({ "command": ["python3", script, mode, memory(fixture).display().to_string()] })
}

fn memory(fixture: &Fixture) -> PathBuf {
    fixture.outer.path().join("memory")
}
