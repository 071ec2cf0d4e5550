//! The framing alone, against the definition of server-sent events.

use longhaul_model::wire::Kind;
use longhaul_model::wire::sse::{Caps, Parser};

fn parse(chunks: &[&[u8]]) -> Vec<(String, String)> {
    let mut parser = Parser::new(Caps::default());
    let mut seen = Vec::new();
    for chunk in chunks {
        parser
            .feed(chunk, |event| {
                seen.push((event.name().to_owned(), String::from_utf8_lossy(event.data).into_owned()));
                Ok(())
            })
            .unwrap();
    }
    parser
        .finish(|event| {
            seen.push((event.name().to_owned(), String::from_utf8_lossy(event.data).into_owned()));
            Ok(())
        })
        .unwrap();
    seen
}

#[test]
fn lines_become_events() {
    let cases: [(&str, &[(&str, &str)]); 14] = [
        ("data: a\n\n", &[("", "a")]),
        ("data:a\n\n", &[("", "a")]),
        ("data:  a\n\n", &[("", " a")]),
        ("event: e\ndata: a\n\n", &[("e", "a")]),
        ("data: a\nevent: e\n\n", &[("e", "a")]),
        ("data: a\ndata: b\ndata\ndata: c\n\n", &[("", "a\nb\n\nc")]),
        ("data\n\n", &[("", "")]),
        ("event: e\n\ndata: a\n\n", &[("", "a")]),
        (": c\n:\nid: 1\nretry: 5\nx: y\n\n", &[]),
        ("dataset: a\n\ndata: b\n\n", &[("", "b")]),
        ("\u{feff}data: a\n\n", &[("", "a")]),
        ("\n\n\ndata: a\n\n\n\ndata: b\n\n", &[("", "a"), ("", "b")]),
        // The last empty line may be missing; the last line's end may not.
        ("data: a\n", &[("", "a")]),
        ("data: a\n\ndata: b", &[("", "a")]),
    ];
    for (stream, expected) in cases {
        let expected: Vec<(String, String)> =
            expected.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect();
        for line_end in ["\n", "\r\n", "\r"] {
            let stream = stream.replace('\n', line_end).into_bytes();
            assert_eq!(parse(&[&stream]), expected, "{stream:?}");
            for at in 0..=stream.len() {
                assert_eq!(parse(&[&stream[..at], &stream[at..]]), expected, "{stream:?} {at}");
            }
            let bytes: Vec<&[u8]> = stream.chunks(1).collect();
            assert_eq!(parse(&bytes), expected, "{stream:?}");
        }
    }
}

/// Bytes that only begin like a byte-order mark are part of the first line.
#[test]
fn half_a_byte_order_mark_is_no_mark() {
    assert_eq!(parse(&[b"\xEF", b"\xBBdata: a\n\n"]), []);
    assert_eq!(parse(&[b"\xEF\xBB\xBFdata: \xEF\xBB\xBFa\n\n"]), [(String::new(), "\u{feff}a".to_owned())]);
}

/// F32: a line or an event without end is an error at its cap, and holds no more memory than the cap.
#[test]
fn endless_lines_and_events_reach_the_cap() {
    let caps = Caps { line_bytes: 4096, event_bytes: 8192 };
    let feed_for_ever = |chunk: &[u8]| {
        let mut parser = Parser::new(caps);
        let mut fed = 0;
        loop {
            match parser.feed(chunk, |_| Ok(())) {
                Ok(()) => fed += chunk.len(),
                Err(error) => return (error.kind, fed, parser.held_bytes()),
            }
            assert!(fed < 1 << 20, "no cap");
        }
    };
    let (kind, _, held) = feed_for_ever(&[b'x'; 1000]);
    assert_eq!(kind, Kind::TooLarge);
    assert!(held <= 2 * 4096, "{held}");
    let (kind, _, held) = feed_for_ever(b"data: 0123456789\n");
    assert_eq!(kind, Kind::TooLarge);
    assert!(held <= 4 * 8192, "{held}");
    let long = [b"data: ".as_slice(), &[b'x'; 5000], b"\n\n"].concat();
    assert_eq!(Parser::new(caps).feed(&long, |_| Ok(())).unwrap_err().kind, Kind::TooLarge);
}
