//! What commands reach that may talk to some hosts.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::rig::{Held, can_hold};

/// A command that asks the proxy for `target` and prints the answer.
fn asking(target: &str) -> String {
    format!(
        "exec 3<>/dev/tcp/127.0.0.1/3128 && printf 'CONNECT {target} HTTP/1.1\\r\\n\\r\\n' >&3 && cat <&3; echo; echo $https_proxy"
    )
}

/// A41, A42, A43: with hosts allowed there is a proxy and nothing else; it leads to no other host, and not to this machine
/// under an allowed name.
#[tokio::test]
async fn allowed_hosts_are_all_there_is() {
    if !can_hold("allowed_hosts_are_all_there_is") {
        return;
    }
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    let held = Held::reaching(&format!("localhost:{port},api.good.invalid,*.wide.invalid"));
    let proxy = "http://127.0.0.1:3128\n";
    for (target, status, why) in [
        ("evil.invalid:443", "403 Forbidden", "not allowed by permissions.network"),
        ("api.good.invalid.evil:443", "403 Forbidden", "not allowed"),
        ("evil-api.good.invalid:443", "403 Forbidden", "not allowed"),
        ("api.good.invalid@evil:443", "403 Forbidden", "not a host name"),
        ("127.0.0.1:443", "403 Forbidden", "not a host name"),
        ("169.254.169.254:443", "403 Forbidden", "not a host name"),
        ("api.good.invalid:80", "403 Forbidden", "not allowed"),
        (&format!("localhost:{port}"), "403 Forbidden", "leads to no public address"),
        // These may be gone to; that there are no such names is found outside.
        ("api.good.invalid:443", "502 Bad Gateway", "api.good.invalid:443"),
        ("a.wide.invalid:443", "502 Bad Gateway", "a.wide.invalid:443"),
    ] {
        let said = held.get(&asking(target)).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")) && said.contains(why), "{target}: {said}");
        assert!(said.ends_with(proxy), "{said}");
    }
    let around = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port} && echo CONNECTED; cat /etc/resolv.conf; exec 3<>/dev/tcp/1.1.1.1/443 && echo CONNECTED; true"
    );
    let said = held.get(&around).await;
    assert!(!said.contains("CONNECTED") && said.contains("unreachable"), "{said}");
}

/// A44: without hosts there is no proxy either.
#[tokio::test]
async fn no_hosts_are_no_network() {
    if !can_hold("no_hosts_are_no_network") {
        return;
    }
    let held = Held::new();
    let said = held.get(&(asking("api.good.invalid:443") + "; true")).await;
    assert!(said.contains("Connection refused") && !said.contains("HTTP"), "{said}");
}

/// F40: the one who leads to the proxy ends with the command, and is in nobody's way.
#[tokio::test]
async fn the_way_out_ends_with_the_command() {
    if !can_hold("the_way_out_ends_with_the_command") {
        return;
    }
    let held = Held::reaching("api.good.invalid");
    for _ in 0..20 {
        assert_eq!(held.get("sleep 0.01 & wait; ls -l /proc/self/fd | grep -c socket; true").await, "0\n");
    }
    // Only what is held for this test has its workspace among its mounts.
    let root = held.root().to_str().unwrap();
    let lives = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("mountinfo")).is_ok_and(|mounts| mounts.contains(root))
    };
    let left = || fs::read_dir("/proc").unwrap().flatten().filter(lives).count();
    let seen = async {
        while left() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        fs::write(held.root().join("seen"), "").unwrap();
    };
    // The control: what lives is found.
    tokio::join!(held.get("until test -e seen; do sleep 0.01; done"), seen);
    let end = Instant::now() + Duration::from_secs(2);
    while left() > 0 {
        assert!(Instant::now() < end, "{} are left", left());
    }
}
