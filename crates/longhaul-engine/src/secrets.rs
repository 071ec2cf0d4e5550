//! What must never be written down: the providers' keys, and what MCP servers are given. A tool that prints one has it
//! struck out before the journal, the blobs or the model see it, and so have a task and a model's own words. So has one that
//! prints most of it: long outputs are cut, and the cut may go through a key. Secrets are learned as they are found, and
//! never forgotten: a key that was renewed may still be somewhere.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use longhaul_core::conversation::ModelReply;
use longhaul_core::evidence::Examination;
use longhaul_core::input::{Home, Tended};
use longhaul_core::json::Json;
use longhaul_core::tool::{Outcome, Output};
use memchr::memmem;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::limits::{SECRET_BEGUN_BYTES_MIN, SECRET_BYTES_MIN, SECRET_PIECE_BYTES_MIN};

const STRUCK_OUT: &str = "[secret]";

/// Cheap to clone; what one clone learns all of them know. Its `Debug` shows nothing, because the values are wrapped.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Arc<RwLock<Arc<[SecretString]>>>);

impl Secrets {
    pub fn new(values: Vec<SecretString>) -> Secrets {
        let secrets = Secrets::default();
        secrets.learn(values);
        secrets
    }

    /// Knows these from now on as well.
    pub fn learn(&self, values: impl IntoIterator<Item = SecretString>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut all = known.to_vec();
        for value in values.into_iter().filter(|value| value.expose_secret().len() >= SECRET_BYTES_MIN) {
            if all.iter().all(|old| old.expose_secret() != value.expose_secret()) {
                all.push(value);
            }
        }
        *known = all.into();
    }

    fn known(&self) -> Arc<[SecretString]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn strike<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.strike_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(clean) => Cow::Owned(String::from_utf8_lossy(&clean).into_owned()),
        }
    }

    /// The same for bytes that need not be text.
    pub fn strike_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.known().iter().map(|secret| secret.expose_secret().as_bytes()).fold(
            Cow::Borrowed(bytes),
            |bytes, secret| {
                let places = places(&bytes, secret);
                if places.is_empty() { bytes } else { Cow::Owned(without(&bytes, &places)) }
            },
        )
    }

    /// How many of the last bytes may be the beginning of a secret. Of fewer than a few nobody learns much, and they would be kept
    /// from whoever waits for them.
    pub fn begun(&self, bytes: &[u8]) -> usize {
        let begun = |secret: &[u8]| {
            let longest = bytes.len().min(secret.len() - 1);
            // What is left of a short one would not be known as its end.
            let is_short = secret.len() < SECRET_PIECE_BYTES_MIN + SECRET_BEGUN_BYTES_MIN;
            let least = if is_short { 1 } else { SECRET_BEGUN_BYTES_MIN };
            (least..=longest).rev().find(|count| bytes.ends_with(&secret[..*count]))
        };
        let known = self.known();
        known.iter().filter_map(|secret| begun(secret.expose_secret().as_bytes())).max().unwrap_or(0)
    }

    pub fn strike_outcome(&self, outcome: Outcome) -> Outcome {
        if self.known().is_empty() {
            return outcome;
        }
        match outcome {
            Outcome::Done { output } => Outcome::Done { output: self.strike_output(output) },
            Outcome::Failed { failure, message, output } => Outcome::Failed {
                failure,
                message: self.strike(&message).into_owned(),
                output: self.strike_output(output),
            },
            Outcome::Unknown { message } => Outcome::Unknown { message: self.strike(&message).into_owned() },
        }
    }

    /// What the harness saw of the work, without keys that verify commands printed.
    pub fn strike_examination(&self, mut found: Examination) -> Examination {
        if self.known().is_empty() {
            return found;
        }
        let strike = |text: &mut String| *text = self.strike(text).into_owned();
        for check in &mut found.checks {
            check.output = self.strike(&check.output).into_owned().into();
            strike(&mut check.ended);
        }
        found.warnings.iter_mut().for_each(strike);
        found.handoff.iter_mut().for_each(strike);
        found.changes.iter_mut().for_each(strike);
        found.diff.iter_mut().for_each(strike);
        found
    }

    /// What a model said, without what it should not have known. Its own protocol's words are signed as they are: those with
    /// a secret in them are not kept, and the reply goes back as text and calls.
    pub fn strike_reply(&self, reply: ModelReply) -> ModelReply {
        if self.known().is_empty() {
            return reply;
        }
        let mut reply = reply;
        reply.text = self.strike(&reply.text).into_owned();
        for call in &mut reply.calls {
            call.args = self.strike_json(&call.args);
            call.tool = self.strike(&call.tool).into_owned().into();
            for text in call.provider_id.iter_mut().chain(&mut call.malformed) {
                *text = self.strike(text).into_owned();
            }
        }
        reply.raw = reply.raw.filter(|raw| self.strike_json(&raw.content) == raw.content);
        reply
    }

    /// The same JSON with every string struck, whichever way its letters are written.
    fn strike_json(&self, json: &Json) -> Json {
        let mut value = json.value();
        if self.strike_value(&mut value) { Json::of(&value) } else { json.clone() }
    }

    /// Was anything struck out?
    fn strike_value(&self, value: &mut Value) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
            Value::String(text) => match self.strike(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(clean) => {
                    *text = clean;
                    true
                }
            },
            Value::Array(values) => {
                values.iter_mut().fold(false, |any, value| self.strike_value(value) | any)
            }
            Value::Object(fields) => {
                let before = std::mem::take(fields);
                let mut any = false;
                for (name, mut value) in before {
                    any |= self.strike_value(&mut value);
                    let clean = self.strike(&name).into_owned();
                    any |= clean != name;
                    fields.insert(clean, value);
                }
                any
            }
        }
    }

    /// What was done about a worktree, without what an agent may have called its branches by. They are only shown by these names.
    pub fn strike_tended(&self, mut tended: Tended) -> Tended {
        let names = tended.brought.iter_mut().map(|brought| &mut brought.branch);
        let why = match &mut tended.home {
            Home::Lacking { why } => Some(why),
            Home::NotLooked | Home::Complete => None,
        };
        for text in names.chain(why) {
            *text = self.strike(text).into_owned();
        }
        tended
    }

    /// A directory by such a name is not found again, and the next command says so.
    fn strike_output(&self, mut output: Output) -> Output {
        output.cwd = output.cwd.map(|cwd| self.strike(&cwd).into_owned());
        match self.strike(output.text.as_str()) {
            Cow::Borrowed(_) => output,
            Cow::Owned(clean) => Output { text: clean.into(), ..output },
        }
    }
}

/// Where a secret stands, or a beginning or an end of it, in order and apart from each other.
fn places(bytes: &[u8], secret: &[u8]) -> Vec<Range<usize>> {
    let piece = SECRET_PIECE_BYTES_MIN.min(secret.len());
    let beginnings = memmem::find_iter(bytes, &secret[..piece]).map(|at| {
        let more = bytes[at..].iter().zip(secret).take_while(|(found, sought)| found == sought).count();
        at..at + more
    });
    let mut places: Vec<Range<usize>> = beginnings.collect();
    let ends = memmem::find_iter(bytes, &secret[secret.len() - piece..]).map(|at| {
        let end = at + piece;
        let back = bytes[..end].iter().rev().zip(secret.iter().rev());
        end - back.take_while(|(found, sought)| found == sought).count()..end
    });
    places.extend(ends);
    places.sort_by_key(|place| place.start);
    places.dedup_by(|next, before| {
        let overlaps = next.start < before.end;
        if overlaps {
            before.end = before.end.max(next.end);
        }
        overlaps
    });
    places
}

fn without(bytes: &[u8], places: &[Range<usize>]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(bytes.len());
    let mut start = 0;
    for place in places {
        clean.extend_from_slice(&bytes[start..place.start]);
        clean.extend_from_slice(STRUCK_OUT.as_bytes());
        start = place.end;
    }
    clean.extend_from_slice(&bytes[start..]);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every place of every secret is struck out, in text and in bytes; what is too short to be one is left alone.
    #[test]
    fn secrets_are_struck_out() {
        let secrets = Secrets::new(vec!["sk-canary-1".into(), "short".into()]);
        let text = "a sk-canary-1 b short sk-canary-1";
        assert_eq!(secrets.strike(text), "a [secret] b short [secret]");
        assert_eq!(&*secrets.strike_bytes(text.as_bytes()), b"a [secret] b short [secret]");
        assert!(matches!(secrets.strike_bytes(b"\xff nothing"), Cow::Borrowed(_)));
        assert!(!format!("{secrets:?}").contains("canary"));
    }

    /// A100: only what is known to be a key is struck out. Digests, ids and signatures look like one, and a reply that is replayed
    /// must have them as they were.
    #[test]
    fn what_only_looks_like_a_key_is_left() {
        let secrets = Secrets::new(vec!["sk-ant-api03-4f9c2e7b1d".into()]);
        let text = "commit 9fceb02d0ae598e95dc970b74767f19372d61af8, \
            sha256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855, \
            id 3f2504e0-4f89-41d3-9a0c-0305e82c3301, msg_01XFDUDYJgAACzvnptvVoYEL, sk-ant-api03-, \
            signature EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds";
        assert!(matches!(secrets.strike(text), Cow::Borrowed(_)), "{}", secrets.strike(text));
        assert!(secrets.strike(&format!("{text} sk-ant-api03-4f9c2e7b1d")).ends_with(" [secret]"));
    }

    /// A100: what has been printed may end with the beginning of a key, of which a few bytes are nobody's secret.
    #[test]
    fn the_beginning_of_a_secret_is_known() {
        let secrets = Secrets::new(vec!["sk-canary-of-the-first".into(), "canary-of-all-the-others".into()]);
        let begun = |text: &str| secrets.begun(text.as_bytes());
        assert_eq!(
            ["", "sk-", "a sk-c", "a sk-canary", "sk-canary-of-the-first", "sk-canary sk-x"].map(begun),
            [0, 0, 4, 9, 0, 0]
        );
        assert_eq!(begun("sk-canary-"), 10, "the longest of them");
        assert_eq!(Secrets::new(vec!["short-key".into()]).begun(b"it is s"), 1, "its end would not be known");
    }

    /// A100: so are what an agent calls branches by and the directory that it leaves its shell in.
    #[test]
    fn names_are_struck_out() {
        use longhaul_core::event::Brought;
        let secrets = Secrets::new(vec!["sk-canary-1".into()]);
        let brought = vec![Brought { branch: "refs/heads/sk-canary-1".into(), commit: "0".repeat(40) }];
        let home = Home::Lacking { why: "`sk-canary-1` was moved".into() };
        let tended = secrets.strike_tended(Tended { brought, home, mended: vec!["refs".into()] });
        assert_eq!(tended.brought[0].branch, "refs/heads/[secret]");
        assert_eq!(tended.home, Home::Lacking { why: "`[secret]` was moved".into() });
        let output = Output { cwd: Some("in/sk-canary-1".into()), ..Output::text("nothing") };
        let Outcome::Done { output } = secrets.strike_outcome(Outcome::Done { output }) else {
            panic!("done")
        };
        assert_eq!((output.text.as_str(), output.cwd.as_deref()), ("nothing", Some("in/[secret]")));
    }

    /// What is learned later is known to everybody who strikes, and what was known before stays so.
    #[test]
    fn a_renewed_key_is_learned() {
        let secrets = Secrets::new(vec!["sk-canary-old".into()]);
        let elsewhere = secrets.clone();
        secrets.learn(["sk-canary-new".into(), "sk-canary-old".into()]);
        assert_eq!(elsewhere.strike("sk-canary-old sk-canary-new"), "[secret] [secret]");
        assert_eq!(secrets.known().len(), 2);
    }

    /// What verify commands print is struck out with the rest of a look at the work.
    #[test]
    fn a_look_is_struck_out() {
        use longhaul_core::evidence::Check;
        let secrets = Secrets::new(vec!["sk-canary-1".into()]);
        let check = Check {
            command: "env".to_owned(),
            passed: false,
            ended: "sk-canary-1".to_owned(),
            output: "KEY=sk-canary-1".into(),
            blob: None,
            duration_us: 1,
        };
        let text = || Some("with sk-canary-1".to_owned());
        let (handoff, changes, diff) = (text(), text(), text());
        let (checks, warnings) = (vec![check], vec!["sk-canary-1".to_owned()]);
        let found = Examination { checks, warnings, handoff, changes, diff, ..Examination::default() };
        let struck = format!("{:?}", secrets.strike_examination(found));
        assert!(!struck.contains("canary") && struck.matches("[secret]").count() == 6, "{struck}");
    }

    /// A key in a model's own words is struck out, also where JSON writes it in another way; what has none stays as it came.
    #[test]
    fn a_reply_is_struck_out() {
        use longhaul_core::conversation::{ProposedCall, Raw};
        let secrets = Secrets::new(vec!["sk-canary/\"1".into()]);
        let reply = |key: &str, raw: bool| {
            let escaped = if key.contains('\\') { key.to_owned() } else { key.replace('"', "\\\"") };
            let args = Json::parse(format!(r#"{{"b": 1.50, "a": ["{escaped}"]}}"#)).unwrap();
            let raw = raw.then(|| Raw { model: "m".into(), api: "a".into(), content: args.clone() });
            let call = ProposedCall {
                provider_id: Some(format!("id_{key}")),
                malformed: Some(format!("not {key}")),
                ..ProposedCall::new(format!("ask_{key}").as_str(), args)
            };
            ModelReply { text: format!("I use {key}."), calls: vec![call], raw, ..ModelReply::default() }
        };
        let struck = secrets.strike_reply(reply(r#"sk-canary\/\"1"#, true));
        assert_eq!((struck.calls[0].args.as_str(), struck.raw), (r#"{"a":["[secret]"],"b":1.5}"#, None));
        let named = &secrets.strike_reply(reply("sk-canary/\"1", false)).calls[0];
        let id = (named.provider_id.as_deref(), named.malformed.as_deref());
        assert_eq!((named.tool.as_str(), id), ("ask_[secret]", (Some("id_[secret]"), Some("not [secret]"))));
        let plain = reply("nothing", true);
        assert_eq!(secrets.strike_reply(plain.clone()), plain);
    }

    /// A cut through a long key leaves a piece, which is struck out too; what all keys of its kind begin with is not.
    #[test]
    fn pieces_are_struck_out() {
        let secrets = Secrets::new(vec!["sk-canary-0123456789abcdef".into()]);
        let check = |text: &str, clean: &str| assert_eq!(secrets.strike(text), clean);
        check("a sk-canary-0123456[cut]56789abcdef", "a [secret][cut]56789abcdef");
        check("[cut]nary-0123456789abcdef b", "[cut][secret] b");
        check("sk-canary-0123456789abcdefsk-canary-0123456789abcdef", "[secret][secret]");
        check("sk-canary-01234", "sk-canary-01234");
        check("sk-canary-0123456 89abcdef", "[secret] 89abcdef");
        check("sk-canary-0123456789abcd☃", "[secret]☃");
    }
}
