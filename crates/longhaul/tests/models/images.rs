//! Images that tools find: shown to a model that can see, named everywhere else.

use std::fs::File;
use std::io::Write as _;

use longhaul_model::fake::Received;
use serde_json::{Value, json};

use super::rig::{APIS, Exchanged, PRICES, Rig, asked, files_below, provider, serve, until};

/// One green pixel.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\xdacd\xf8\xcfP\x0f\0\x03\x86\x01\x80Z4}k\0\0\0\0IEND\xaeB`\x82";

/// The same as it goes over the wire.
const SENT: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const WORK: &str = r#"
conversations:
  - turns:
      - text: "I look."
        calls: [ { tool: read, args: { path: pixel.png } } ]
        usage: { input: 1000, output: 100 }
      - text: "It is green."
        FAIL
        usage: { input: 2000, output: 10 }
"#;

fn with_pixel(rig: &Rig) {
    std::fs::write(rig.path("pixel.png"), PNG).unwrap();
}

/// The image as this protocol has it, if it is in the request.
fn shown(api: &str, request: &Received) -> bool {
    let url = format!("data:image/png;base64,{SENT}");
    let (key, image) = match api {
        "anthropic" => ("source", json!({"type": "base64", "media_type": "image/png", "data": SENT})),
        "responses" => ("image_url", json!(url)),
        _ => ("image_url", json!({ "url": url })),
    };
    holds(&request.body, key, &image)
}

fn holds(value: &Value, key: &str, wanted: &Value) -> bool {
    match value {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| (name == key && value == wanted) || holds(value, key, wanted))
        }
        Value::Array(values) => values.iter().any(|value| holds(value, key, wanted)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// D6.1: `read` shows a model an image with the result, over every protocol. The journal, what is said about the run and a
/// recording of it only name it; its bytes are a blob.
#[test]
fn a_model_sees_what_read_found() {
    for api in APIS {
        let fake = serve(&WORK.replace("FAIL", ""));
        let rig = Rig::with_all(&fake);
        with_pixel(&rig);
        let said = rig.run(&format!("{api}/m"), &["--record", "night.yaml"]);
        assert_eq!(said.code, 0, "{api}: {said:?}");
        let requests = asked(&fake);
        assert_eq!(
            (requests.len(), shown(api, &requests[0]), shown(api, &requests[1])),
            (2, false, true),
            "{api}"
        );
        let results = Exchanged::of(&requests[1]).results;
        assert_eq!(results[0].1, "`pixel.png` is an image: image/png, 1×1, 70 bytes", "{api}");
        let id = said.id();
        let blobs = files_below(&rig.path(".longhaul/runs"));
        assert_eq!(blobs.iter().filter(|(_, bytes)| bytes == PNG).count(), 1, "{api}: one blob");
        for (path, bytes) in files_below(&rig.path(".longhaul")) {
            assert!(!String::from_utf8_lossy(&bytes).contains(SENT), "{api}: bytes in {}", path.display());
        }
        for view in [&["prompt", &id][..], &["logs", &id], &["tools", &id, "--json"], &["export", &id]] {
            let text = rig.get(view);
            assert!(text.contains("pixel.png") && !text.contains(SENT), "{api} {view:?}: {text}");
        }
        assert!(rig.get(&["prompt", &id]).contains("[image/png, 1×1, 70 bytes; read blob:"), "{api}");
        let recorded = rig.read("night.yaml");
        assert!(!recorded.contains(SENT), "{api}: {recorded}");
        let again = rig.run("scripted/night.yaml", &[]);
        assert_eq!(
            (again.code, rig.get(&["result", &again.id(), "--output"]).trim()),
            (0, "It is green."),
            "{api}"
        );
    }
}

/// D6.1: a provider that is said not to take images gets the words only.
#[test]
fn a_model_without_eyes_is_told_so() {
    let fake = serve(&WORK.replace("FAIL", ""));
    let more = format!("images: false\n    {PRICES}");
    let rig = Rig::with(&APIS.map(|api| provider(api, api, &fake.url(), &more)));
    with_pixel(&rig);
    for api in APIS {
        let said = rig.run(&format!("{api}/m"), &[]);
        assert_eq!(said.code, 0, "{api}: {said:?}");
        let request = asked(&fake).pop().unwrap();
        assert!(!shown(api, &request), "{api}");
        let results = Exchanged::of(&request).results;
        let end = "[image/png, 1×1, 70 bytes, not shown: this model is not shown images]";
        assert!(results[0].1.ends_with(end), "{api}: {results:?}");
    }
}

/// D6.1: killed while the model looks, a run asks exactly the same again, image and all.
#[test]
fn a_killed_run_shows_the_same_again() {
    for api in APIS {
        let fake = serve(&WORK.replace("FAIL", "fail: [ { stall_ms: 600000 } ]"));
        let rig = Rig::with_all(&fake);
        with_pixel(&rig);
        let mut driver = rig.start(&["run", "x", "--in-place", "--model", &format!("{api}/m")]);
        until("the second question", || asked(&fake).get(1).cloned());
        driver.kill();
        // What was read is kept with the run; the file may go.
        std::fs::remove_file(rig.path("pixel.png")).unwrap();
        assert_eq!(rig.get(&["resume", &rig.only_run()]), "It is green.\n", "{api}");
        let requests = asked(&fake);
        assert_eq!(requests.len(), 3, "{api}");
        assert!(shown(api, &requests[2]), "{api}");
        assert_eq!(requests[1].body, requests[2].body, "{api}");
    }
}

/// D6.1: what is no image, or none that can be shown, is said in words that help; the run goes on.
#[test]
fn bad_images_are_said_to_be_bad() {
    let names = ["cut.png", "pixel.txt", "words.png", "huge.png", "drawing.svg"];
    let calls: Vec<String> =
        names.iter().map(|name| format!("{{ tool: read, args: {{ path: {name} }} }}")).collect();
    let script = format!(
        "conversations: [ {{ turns: [ {{ calls: [ {} ] }}, {{ text: 'Seen.' }} ] }} ]",
        calls.join(", ")
    );
    let fake = serve(&script);
    let rig = Rig::with_all(&fake);
    std::fs::write(rig.path("cut.png"), &PNG[..50]).unwrap();
    std::fs::write(rig.path("pixel.txt"), PNG).unwrap();
    rig.write("words.png", "just words\n");
    rig.write("drawing.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>\n");
    let mut huge = File::create(rig.path("huge.png")).unwrap();
    huge.write_all(PNG).unwrap();
    huge.set_len(50_000_000).unwrap();
    let said = rig.run("anthropic/m", &[]);
    assert_eq!(said.code, 0, "{said:?}");
    let results = Exchanged::of(&asked(&fake)[1]).results;
    let found: Vec<&str> = results.iter().map(|(_, text)| text.as_str()).collect();
    assert!(
        found[0].contains("`cut.png` cannot be shown: it is a PNG image of 1 × 1 pixels that is damaged"),
        "{found:?}"
    );
    assert_eq!(found[1], "`pixel.txt` is an image: image/png, 1×1, 70 bytes");
    assert!(found[2].contains("1\tjust words"), "{found:?}");
    assert!(
        found[3].contains("of 50000000 bytes, and 3750000 are the most that can be shown; make it smaller"),
        "{found:?}"
    );
    assert!(found[4].contains("1\t<svg"), "{found:?}");
    assert!(shown("anthropic", &asked(&fake)[1]), "the one that is an image");
}
