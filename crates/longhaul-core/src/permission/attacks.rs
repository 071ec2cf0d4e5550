//! Ways around rules that others fell for, as a table: none of them may come out as allowed.

#![cfg(test)]

use super::tests::{HERE, rules, verdict};
use super::{ALWAYS, Action, judge};

/// Rules a careful person might write: a few commands are allowed, everything else is asked about.
fn careful() -> super::Permissions {
    let allowed = [
        "git log *",
        "git status*",
        "git diff *",
        "git push *",
        "grep *",
        "rg *",
        "find *",
        "ls *",
        "cat*",
        "sed *",
        "awk *",
        "sort *",
        "tar *",
        "man *",
        "jq *",
        "echo *",
        "printf *",
        "xargs *",
        "env *",
        "timeout *",
        "test *",
        "cd *",
        "true",
        "python3 *",
        "bash *",
        "sh *",
        "make *",
        "ssh *",
        "tee *",
        "dd *",
        "ln *",
        "trap *",
        "export *",
        "read *",
        "let *",
        "declare *",
        "command *",
        "nice *",
        "touch *",
        "head *",
    ];
    let mut bash: Vec<(&str, Action)> = allowed.iter().map(|pattern| (*pattern, Action::Allow)).collect();
    bash.extend([("*", Action::Ask), ("rm *", Action::Deny), ("curl *", Action::Deny)]);
    rules(&[("bash", &bash), ("external_directory", &[("*", Action::Deny)])])
}

fn action(command: &str) -> Action {
    verdict(&careful(), command).action
}

/// All wrong lines at once, each with its verdict.
fn all(lines: &[&str], right: impl Fn(Action) -> bool) {
    let careful = careful();
    let judged = lines.iter().map(|line| (line, verdict(&careful, line)));
    let wrong: Vec<String> = judged
        .filter(|(_, verdict)| !right(verdict.action))
        .map(|(line, verdict)| format!("{line:?}: {verdict:?}"))
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), lines.len(), wrong.join("\n"));
}

/// A19, A23, A24: what is denied is denied wherever it stands.
#[test]
fn a_denied_command_is_seen_through_everything() {
    let lines = [
        "git status; rm -rf x",
        "git status && rm x",
        "git status || rm x",
        "git status | rm x",
        "git status & rm x",
        "git status\nrm x",
        "git status $(rm x)",
        "git status `rm x`",
        "git status <(rm x)",
        "git status \"$(rm x)\"",
        "git status ${v:-$(rm x)}",
        "r\\m x",
        "'r'm x",
        "$'\\x72m' x",
        "X=rm;$X x",
        "{rm,-rf,x}",
        "rm${IFS}-rf x",
        "env rm x",
        "command rm x",
        "sudo -u x rm x",
        "timeout 1 rm x",
        "sh -c 'rm x'",
        "bash -lc 'true; rm x'",
        "echo x | xargs rm",
        "find . -exec rm {} +",
        "find . -ok rm {} \\;",
        "/bin/rm x",
        "RM x",
        "nohup nice -n 5 env A=1 rm x",
        "eval 'rm x'",
        "eval rm x",
        "trap 'rm x' EXIT",
        "f() { rm x; }",
        "if true; then rm x; fi",
        "for f in a; do rm $f; done",
        "while true; do rm x; done",
        "case a in a) rm x;; esac",
        "(rm x)",
        "{ rm x; }",
        "bash <<E\nrm x\nE",
        "bash <<< 'rm x'",
        "! rm x",
        "time rm x",
        "[[ -n $(rm x) ]]",
        "echo $(( $(rm x) ))",
        "a=$(rm x)",
        "cat <<E\n$(rm x)\nE",
        "python3 -c 'import os; os.system(\"rm x\")'",
        "perl -e 'system(\"rm\",\"x\")'",
        "awk 'BEGIN { system(\"rm x\") }'",
        "ssh host rm x",
        "ssh host 'cd /; rm x'",
        "watch -n 1 rm x",
        "coproc rm x",
        "vim -c '!rm x'",
        "git -c alias.x='!rm x' x",
        "unknown-wrapper rm x; rm y",
        "exec rm x",
        "builtin command rm x",
        "xargs -I{} rm {}",
        "parallel rm ::: x",
        "busybox rm x",
        "sudo -E -- rm x",
        "a=(1 $(rm x))",
        "echo \"${a[$(rm x)]}\"",
        "echo 'unterminated; rm x",
        "su -c 'rm x'",
        "tar --to-command='rm x' -xf a",
        "r\"\"m x",
        "r$@m x; rm y",
        "cat x > $(rm y)",
        "echo ok #'\nrm x #'",
        "select x in a; do rm x; done",
        "rm\\\n x",
        "echo \\\n; rm x",
        "env -S 'rm x'",
        "flock l rm x",
        "stdbuf -oL rm x",
        "strace -f rm x",
        "npx rm x",
        "docker run a rm x",
        "uv run rm x",
        "function f { rm x; }",
        "until rm x; do true; done",
    ];
    all(&lines, |action| action == Action::Deny);
    let many = format!("{}rm x", "true && ".repeat(60));
    assert_eq!(action(&many), Action::Deny);
    let thousands = format!("{}rm x", "true && ".repeat(10_000));
    assert_eq!(action(&thousands), Action::Deny);
    let long = format!("{}; rm x", "a".repeat(2 * 1024 * 1024));
    assert_eq!(action(&long), Action::Deny);
}

/// A20, A21, A23, A26, A29, FAULTS 4.1 and 4.2: no idiom that runs or writes something else is allowed by a rule for its
/// first word. The tests that follow go through the kinds of them.
fn none_is_allowed(lines: &[&str]) {
    all(lines, |action| action != Action::Allow);
}

/// What stands beside the first word, or is hidden in it, is judged for itself.
#[test]
fn what_is_substituted_separated_or_quoted_is_seen() {
    none_is_allowed(&[
        "git status; touchx",
        "git status & touchx",
        "git log\ntouchx",
        "ls $(touchx)",
        "ls \"$(touchx)\"",
        "ls `touchx`",
        "ls <(touchx)",
        "ls >(touchx)",
        "to'u'chx",
        "t\\ouchx",
        "$'\\x74ouchx'",
        "$0 -c ls",
        "X=touchx;$X",
        "{touchx,a}",
        "touchx${IFS}a",
        "A=1 touchx",
        "${v:-touchx}",
        "ls ${v:-$(touchx)}",
        "echo ${x@P}",
        "x='$(touchx)'; echo ${x@P}",
        "/bin/l? x",
        "l* x",
        "$(echo ls) x",
        "\"$CMD\" x",
    ]);
}

/// An allowed program that runs or writes something else at a word of its own is not allowed to.
#[test]
fn what_a_program_runs_or_writes_for_others_is_seen() {
    none_is_allowed(&[
        "env -S 'touchx a'",
        "env touchx",
        "timeout 1 touchx",
        "nice touchx",
        "command touchx",
        "echo a | xargs touchx",
        "find . -exec touchx {} \\;",
        "find . -execdir touchx {} +",
        "find . -fprint a",
        "find . -fls a",
        "find . -delete",
        "sed e",
        "sed '1e touchx' a",
        "sed 's/a/touchx/e' a",
        "sed 'w a' b",
        "sed 's/a/b/w c' d",
        "sed -n '1!G;h;$!d;e touchx' a",
        "sed -f s a",
        "sed --file=s a",
        "sed -e p -e 'e x' a",
        "sed ':a e touchx' a",
        "sed $'ta e touchx\\n:a' a",
        "sed 'b a\te touchx' a",
        "sed ':a\te touchx' a",
        "sed ':a}# e touchx' a",
        "sed ':a;ba}#x e touchx' a",
        "sed 'T\u{b}e touchx' a",
        "awk 'BEGIN{system(\"touchx\")}'",
        "awk '{print > \"a\"}'",
        "awk '{print | \"touchx\"}'",
        "awk -f p a",
        "awk '\"touchx\" | getline'",
        "awk -i inplace x a",
        "sort -o a b",
        "sort --output=a b",
        "sort --compress-program=touchx a",
        "sort --compress-prog touchx a",
        "sort -no a b",
        "tar --to-command=touchx -xf a",
        "tar --checkpoint=1 --checkpoint-action=exec=touchx -cf a b",
        "tar -I touchx -xf a",
        "tar xIf touchx a",
        "tar --use-compress-program touchx -xf a",
        "git -c alias.x='!touchx' x",
        "git -c core.fsmonitor=touchx status",
        "git --exec-path=. log",
        "git -C .. status",
        "git log --output=a",
        "git diff --ext-diff",
        "git diff --no-index a b",
        "git log --textconv",
        "git x",
        "git --git-dir=a log",
        "git diff --output a",
        "git config alias.x '!touchx'",
        "rg --pre touchx a",
        "rg --pre=touchx a",
        "rg --hostname-bin touchx a",
        "rg -z a",
        "man -P touchx ls",
        "man -H touchx ls",
        "man --html=touchx ls",
        "jq -f a b",
        "ssh -oProxyCommand=touchx h",
        "ssh -o ProxyCommand=touchx h",
        "ssh h touchx",
        "make -f- x",
        "make -f /dev/stdin",
        "make --eval=x",
        "make SHELL=touchx",
        "python3 -c 'x'",
        "python3 -",
        "echo x | python3",
        "python3 <<E\nx\nE",
        "perl -ne x",
        "bash -c \"$X\"",
        "bash -c 'touchx'",
        "bash -s",
        "echo x | bash",
        "echo x | sh",
        "base64 -d a | sh",
        "bash < <(touchx)",
        "bash --rcfile a -i",
        "sh <<E\ntouchx\nE",
    ]);
}

/// No text is evaluated by a command that looks like it only compares, counts or assigns.
#[test]
fn what_bash_evaluates_is_seen() {
    none_is_allowed(&[
        "[[ -v a[$(touchx)] ]]",
        "[[ -v 'a[$(touchx)]' ]]",
        "test -v 'a[$(touchx)]'",
        "x='a[$(touchx)]'; ((x))",
        "x='a[$(touchx)]'; echo $((x))",
        "printf -v 'a[$(touchx)]' x",
        "read 'a[$(touchx)]'",
        "[[ a =~ $(touchx) ]]",
        "x='a[$(touchx)]'; [[ $x -eq 1 ]]",
        "x='a[$(touchx)]'; echo ${b[x]}",
        "let 'a[$(touchx)]=1'",
        "declare 'a[$(touchx)]=1'",
        "declare -i x='a[$(touchx)]'",
        "x='a[$(touchx)]'; echo ${b:x}",
        "unset 'a[$(touchx)]'",
        "echo ${!x}",
        "a['$(touchx)']=1",
        "x='a[$(touchx)]'; printf -v y[x] 1",
        "x='a[$(touchx)]'; printf -v 'y[x]' 1",
        "x='a[$(touchx)]'; printf -vy[x] 1",
        "x='a[$(touchx)]'; printf -v y[1+x] 1",
        "x='a[$(touchx)]'; read y[x] <<< 1",
        "x='a[$(touchx)]'; read -r -a y[x] <<< 1",
        "x='a[$(touchx)]'; printf -v y[$x] 1",
        "x='a[$(touchx)]'; read \"y[$x]\" <<< 1",
        "x='a[$(touchx)]'; bash -c '((x))'",
    ]);
}

/// Nothing makes an allowed name mean another program.
#[test]
fn what_changes_the_meaning_of_a_name_is_seen() {
    none_is_allowed(&[
        "PATH=.:$PATH ls",
        "PATH=. ls",
        "for PATH in .; do ls a; done",
        "select PATH in .; do ls a; done",
        "for ((PATH=1; PATH<2; PATH++)); do ls a; done",
        "((PATH = 1)); ls a",
        "echo $((PATH=1)); ls a",
        "let PATH=1; ls a",
        "echo ${PATH:=.}; ls a",
        "read PATH <<< .; ls a",
        "read -r a PATH <<< 'x .'; ls a",
        "read -ra PATH <<< .; ls a",
        "read -aPATH <<< .; ls a",
        "read -p x -- PATH <<< .; ls a",
        "printf -v PATH .; ls a",
        "printf -vPATH .; ls a",
        "command printf -v PATH .; ls a",
        "p=PATH; printf -v $p .; ls a",
        "p=PATH; read $p <<< .; ls a",
        "read GIT_PAGER <<< touchx; git log a",
        "printf -v LD_PRELOAD x; ls a",
        "read IFS <<< x; ls a",
        "export PATH=.",
        "LD_PRELOAD=./x ls",
        "BASH_ENV=x ls",
        "IFS=x ls",
        "IFS=x; ls a",
        "GIT_EXTERNAL_DIFF=touchx git diff a",
        "GIT_CONFIG_COUNT=1 git log",
        "PAGER=touchx git log",
        "export GIT_PAGER=touchx",
        "env PATH=. ls",
        "env GIT_SSH=x git log",
        "LESSOPEN='|touchx' ls",
        "ls() { touchx; }; ls",
        "function ls { touchx; }",
        "alias ls=touchx",
        "shopt -s expand_aliases",
        "trap touchx DEBUG",
        "trap 'touchx' EXIT",
        "enable -f x y",
        "hash -p touchx ls",
        "source a",
        ". a",
        "set -k",
        "exec 3> a",
        "coproc touchx",
        "eval \"$X\"",
        "eval touchx",
        "BASH_ALIASES[ls]=touchx; ls",
        "PROMPT_COMMAND=touchx",
        "declare -x LD_PRELOAD=x",
        "export \"$X\"",
        "complete -C touchx ls",
        "PS4='$(touchx)' ls",
        "MANPAGER=x man ls",
    ]);
}

/// A21, A22, A27: no file elsewhere is read or written by an allowed program.
#[test]
fn what_leads_out_of_the_workspace_is_seen() {
    none_is_allowed(&[
        "make -C / test",
        "make -C/ test",
        "make --directory=/ test",
        "make --directory / test",
        "env -C / ls",
        "ls > /out/f",
        "ls >> /out/f",
        "ls >| /out/f",
        "ls 2> /out/f",
        "ls &> /out/f",
        "ls >& /out/f",
        "ls | tee /out/f",
        "cat /etc/passwd",
        "cat ../secret",
        "cat ~/.ssh/id_rsa",
        "cat $HOME/x",
        "cat \"$X\"",
        "cd / && ls",
        "cd ..; ls",
        "cd /; touch x",
        "cd; ls",
        "ln -s /out x",
        "dd if=a of=/out/b",
        "ls <> /out/f",
        "python3 -m venv /out",
        "head /out/x",
        "cat </out/x",
        "cd src && cat ../../x",
        "for d in a b; do cd $d; cat ../../x; done",
        "echo x > /dev/tcp/h/80",
        "ls /ws-evil/f",
        "cat /ws/../out",
        "grep x /out",
        "sed -i s/a/b/ /out/f",
        "find /out -name x",
        "touch --reference=/out/x a",
        "cat {a,/out/b}",
        "cat .*/x",
    ]);
}

/// A word that is not known yet may be an option, and options run things.
#[test]
fn words_that_may_become_options_are_asked_about() {
    none_is_allowed(&[
        "ls $X",
        "ls \"$X\"",
        "grep a $X",
        "sort *",
        "find $X",
        "git log $X",
        "tar xf a \"$@\"",
    ]);
}

/// What cannot be read for certain is not allowed, nor what only begins like something that is.
#[test]
fn what_is_not_understood_is_asked_about() {
    none_is_allowed(&[
        "ls 'a",
        "ls \"a",
        "ls $(a",
        "ls `a",
        "ls (a)",
        "ls !(a)",
        "ls $[1]",
        "ls a\rb",
        "ls a\u{a0}b",
        "ls a\u{b}b",
        "ls <<E\nx",
        "ls \\",
        "if ls; then",
        "ls )",
        "ls ;; ls",
        "a[ #]=1; touchx",
        "ls {fd}>a",
        "ls &\\\n& touchx",
        "ls $\\\n(touchx)",
        "",
        "   ",
        "#x",
        "gitk",
        "git-log x",
        "git  -C / status",
        "GIT status",
        "./ls",
        "/tmp/ls a",
        "lsof",
        "catx",
        "git statusx",
    ]);
}

/// A29, A30: rules are about words, so what a person means by them still works.
#[test]
fn what_the_rules_mean_is_allowed() {
    let lines = [
        "ls",
        "ls -la",
        "ls -la src",
        "git status",
        "git  status",
        "git status -s",
        "git log --oneline -5",
        "git log -- src/a.rs",
        "git diff HEAD~1 -- 'a b'",
        "grep -rn 'foo|bar' src",
        "grep -n \"it's\" src/*.rs",
        "cat a.txt | grep x | sort -u",
        "ls && git status || true",
        "ls; ls\nls # and so on",
        "find . -name '*.rs' -type f",
        "cat <<'E'\n$(rm x)\nE",
        "echo '$(rm x)' \"\\$(rm x)\" \\`rm\\`",
        "ls 2>&1",
        "ls 2>/dev/null",
        "ls > out.txt",
        "sed -n '1,20p' a",
        "sed 's/a/b/g; s/c/d/' a",
        "sed -i 's/a/b/' src/a.rs",
        "sed -e '/^#/d' -e 's|x|y|' a",
        "sed ':a;N;$!ba;s/x/ /g' a",
        "sed -n ':a; n; /x/{p; b}; ta' a",
        "sed -e ':a' -e '/x/{N;ba}' -e p a",
        "sed ':a p' a",
        "awk '{ print $1 }' a",
        "awk -F: 'NR==1 {print $2}' a",
        "if ls; then git status; else true; fi",
        "for f in src/*.rs; do cat \"$f\"; done",
        "for f in a b; do cat $f; done",
        "! ls",
        "(ls; ls)",
        "{ ls; }",
        "timeout 5 ls",
        "env LANG=C ls",
        "LANG=C sort a",
        "bash -c 'ls; git status'",
        "echo a | xargs echo",
        "cd src && cat ../Cargo.toml",
        "echo \"$HOME and $(ls)\"",
        "echo $((1 + 2))",
        "i=1; echo $((i + 1))",
        "cat {a,b}.txt",
        "[[ -f a && $x == b* ]] && ls",
        "case $x in a|b) ls;; *) true;; esac",
        "tar xzf a.tgz",
        "while read -r line; do echo \"x$line\"; done < a.txt",
        "read -p 'PATH?' -t 5 line",
        "printf -v line '%s' x",
        "printf 'PATH is %s [%s]' a b",
        "[[ $EUID -ne 0 ]] && ls a",
        "command -v ls",
        "cat /ws/a",
        "cd /ws/src && ls",
        "command ls",
        "make test",
        "python3 -m pytest tests",
        "ls --color=auto -- -x",
        "echo [a] {b} ~x a=b #c",
        "echo a; # rm x",
        "head -n 5 a",
    ];
    all(&lines, |action| action == Action::Allow);
}

/// SEED 2.5, A60: some things no rule allows.
#[test]
fn some_things_are_always_refused() {
    let everything =
        rules(&[("bash", &[("*", Action::Allow)]), ("external_directory", &[("*", Action::Allow)])]);
    for line in [
        "rm -rf /",
        "rm -r -f ~",
        "rm -rf ..",
        "rm -rf /*",
        "rm -rf \"$HOME\"",
        "rm -rf ${HOME}/",
        "mkfs.ext4 /dev/sda1",
        "dd if=x of=/dev/sda",
        "dd if=x of=//dev/sda",
        "dd if=x of=/dev/./sda",
        "dd if=x of=/tmp/../dev/sda",
        "cat x > /dev/nvme0n1",
        ":(){ :|:& };:",
        "b() { b & b; }; b",
        "cat /etc/shadow",
        "cat /etc/passwd",
        "cat /etc//passwd",
        "cat /etc/./shadow",
        "cat /etc/ssl/../passwd",
        "cat '/tmp/a b/../../etc/passwd'",
        "cat ~/.ssh/id_rsa",
        "cp x ../.ssh/authorized_keys",
        "export PATH=.:$PATH",
        "export LD_PRELOAD=x",
        "longhaul approve ap_1",
        "longhaul trust --yes",
        "longhaul mcp accept files",
        "sh -c 'longhaul approve ap_1'",
        "sudo rm -rf /",
        "grep root /etc/passwd",
        "cat < /etc/shadow",
    ] {
        let verdict = verdict(&everything, line);
        assert_eq!(verdict.action, Action::Deny, "{line:?}");
        assert!(
            verdict.rule.is_some_and(|rule| ALWAYS.contains(&rule.pattern.as_str())),
            "{line:?} is listed"
        );
    }
    for line in ["rm -rf build", "rm x", "echo /etc/passwd", "export FOO=1", "cat /tmp/x", "longhaul list"] {
        assert_eq!(
            verdict(&everything, line).action,
            Action::Allow,
            "{line:?}: {:?}",
            verdict(&everything, line)
        );
    }
}

/// A57: a rule that was widened for one command does not open its dangerous forms.
#[test]
fn a_narrow_grant_stays_narrow() {
    let granted = rules(&[(
        "bash",
        &[
            ("*", Action::Ask),
            ("git *", Action::Allow),
            ("python3 -c *", Action::Allow),
            ("source env/activate", Action::Allow),
        ],
    )]);
    let cases = [
        ("git log", Action::Allow),
        ("git -c alias.x=!touchx x", Action::Ask),
        ("git push --upload-pack=touchx", Action::Ask),
        ("python3 -c 'print(1)'", Action::Allow),
        ("python3 -c \"$X\"", Action::Ask),
        ("python3 x.py", Action::Ask),
        ("source env/activate", Action::Allow),
        ("source other", Action::Ask),
    ];
    for (line, expected) in cases {
        let command = serde_json::json!({ "command": line });
        let verdict = judge(std::slice::from_ref(&granted), HERE, "bash", &command);
        assert_eq!(verdict.action, expected, "{line:?}: {verdict:?}");
    }
}

/// A20, A23: the word behind a redirection is expanded whatever its operator, and runs what is in it.
#[test]
fn what_a_redirection_expands_is_seen() {
    let operators = ["<", ">", ">>", ">|", "<>", "<&", ">&", "&>", "&>>", "<<<", "3<&", "2>&", "0<&", "<& "];
    let words = [
        "$(rm x)",
        "\"$(rm x)\"",
        "`rm x`",
        "${x:-$(rm x)}",
        "$((a[$(rm x)]))",
        "$(rm x)-",
        "1$(rm x)",
        "$x$(rm x)",
    ];
    let commands = [
        "cat ",
        "",
        "exec ",
        "{ ls; } ",
        "(ls) ",
        "while ls; do true; done ",
        "if ls; then ls; fi ",
        "[[ x ]] ",
        "((1)) ",
        "f() { ls; } ",
    ];
    let both =
        operators.iter().flat_map(|operator| words.iter().map(move |word| format!("{operator}{word}")));
    let lines = both.flat_map(|both| commands.map(|command| format!("{command}{both}")));
    let lines: Vec<String> = lines.chain(["cat <<E\n$(rm x)\nE".to_owned()]).collect();
    all(&lines.iter().map(String::as_str).collect::<Vec<_>>(), |action| action == Action::Deny);
    none_is_allowed(&["cat <&$fd", "cat <&\"$fd\"", "bash <&$fd", "ls >&1--/../../x"]);
    // What a descriptor is open on was said elsewhere, whatever else the command is given.
    let fed = [
        "fd=3; exec 3<<<'git push --force'; bash <&$fd",
        "fd=3; exec 3<<<'git push --force'; bash <&\"$fd\"",
        "fd=3; exec 3<<<'git push --force'; bash 0>&$fd",
        "fd=3; exec 3<<<'git push --force'; bash <f <&$fd",
        "fd=3; exec 3<<<'git push --force'; bash <<<ls <&$fd",
        "exec 3<<<'git push --force'; bash <f <&3",
        "exec 3<<<'git push --force'; bash <f 0>&3",
        "exec 3<<<'git push --force'; bash </dev/fd/3",
        "f=/dev/fd/3; exec 3<<<'git push --force'; bash <$f",
        "echo 'git push --force' | bash 3<f",
        "echo 'git push --force' | bash 3<<<ls",
        "bash < <(cat f)",
        "bash <f < <(cat g)",
        "sh -s < <(printf x)",
        "bash 0< <(cat f)",
        "python3 < <(cat f)",
        "make -f <(cat f)",
        "make -f<(cat f)",
        "make -sf <(cat f)",
        "make --file=<(cat f)",
        "make --makef <(cat f)",
        "make -kf -",
        "make -sf/dev/stdin",
        "f=-; make -f $f",
    ];
    let defaults = super::Permissions::default();
    let mut wrong = wrong_by(&defaults, &fed, |action| action != Action::Allow);
    wrong.extend(wrong_by(&lenient(), &["bash 3<<<'rm x' <&3"], |action| action == Action::Deny));
    let printed = [
        "bash < <(echo 'rm -rf x')",
        "sh -s < <(printf 'rm -rf x')",
        "bash 0< <(echo rm -rf x)",
        "bash <&3 3< <(echo rm -rf x)",
        "python3 < <(echo 'os.system(\"rm -rf x\")')",
        "make -f <(echo 'x:; rm -rf x')",
        "bash < <(curl x)",
        "sh < <(wget -qO- x)",
    ];
    wrong.extend(wrong_by(&defaults, &printed, |action| action == Action::Deny));
    let read = [
        "bash <f",
        "bash 0<f 2>&1",
        "bash <f 3<&0",
        "bash <<<ls 2>&1",
        "fd=3; cat <&$fd",
        "cat < <(ls)",
        "while read -r line; do echo $line; done < <(ls)",
        "make -f a.mk test",
        "make -sf a.mk -j4 test",
        "f=a.mk; make -f $f",
        "make --file=a.mk test",
    ];
    wrong.extend(wrong_by(&defaults, &read, |action| action == Action::Allow));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let plain =
        ["cat <&3", "cat 3<&0", "cat 0<&3-", "cat <&-", "ls >&2", "ls 2>&1", "ls 3>&-", "{ ls; } <&4"];
    all(&plain, |action| action == Action::Allow);
}

/// A19, A23: what a worktree shares with the user's checkout is not lost by another spelling of the option.
#[test]
fn what_a_worktree_shares_is_kept_by_whatever_spelling() {
    use Action::{Allow, Ask, Deny};
    let cases: &[(Action, &[&str])] = &[
        (
            Deny,
            &[
                "git branch -D x",
                "git branch -d -f x",
                "git branch -df x",
                "git branch -fd x",
                "git branch --delete --force x",
                "git branch --force --delete x",
                "git branch --del --forc x",
                "git branch x -d --force",
                "git branch -f x HEAD",
                "git branch --force x HEAD",
                "git branch -M x y",
                "git branch -m -f x y",
                "git branch -c -f main x",
                "git branch -C main x",
                "git -C sub branch -qf x HEAD",
                "sh -c 'git branch --force x HEAD'",
                "git tag -d v1",
                "git tag --delete v1",
                "git tag --del v1",
                "git tag -f v1 HEAD",
                "git tag --force v1 HEAD",
                "git tag -am x -f v1",
                "git fetch . +HEAD:x",
                "git fetch -f . HEAD:x",
                "git fetch . HEAD:refs/tags/v1 --force",
                "git pull . +HEAD:x",
                "git symbolic-ref refs/heads/x refs/heads/main",
                "git symbolic-ref -m why refs/tags/v1 HEAD",
                "git symbolic-ref -d refs/heads/x",
                "git symbolic-ref refs/stash refs/heads/main",
                "git reflog delete stash@{0}",
                "git stash branch mine",
                "git fetch -P",
                "git fetch -pP ./e",
                "git fetch --prune --prune-tags ./e",
                "git fetch --prune-t ./e",
                "git fetch --stdin . <<< '+HEAD:x'",
                "git fetch --std .",
                "git fetch --refmap='+refs/heads/main:refs/heads/x' . refs/heads/main",
                "git fetch --refmap +main:x . main",
                "git fetch --refm=+main:x . main",
                "git pull --refmap=+main:x . main",
                "/usr/libexec/git-core/git-update-ref -d refs/heads/x",
                "/usr/libexec/git-core/git-branch -D x",
                "sh -c 'git-branch --del --force x'",
                "sudo git-stash drop",
                "python3 -c 'os.system(\"git-branch -D x\")'",
            ],
        ),
        (
            Ask,
            &[
                "git branch -m x y",
                "git branch --move x y",
                "git branch --mo x y",
                "git checkout -B x",
                "git checkout -qB x HEAD",
                "git switch -C x",
                "git switch --force-create x",
                "git switch --force-c x HEAD",
                "git fetch ./ +HEAD:x",
                "git fetch --prune up 'refs/heads/*:refs/heads/*'",
                "git rebase --update-refs main",
                "git pull --prune ./e 'refs/heads/*:refs/heads/*'",
                "git pull -p ./e 'refs/heads/*:refs/heads/*'",
                "git pull -qp ./e a:b",
                "git pull --pru ./e a:b",
                "git worktree add -B x y main",
                "git worktree add -qB x y main",
                "git-commit -m x",
                "/usr/libexec/git-core/git-push origin",
                "git-config alias.x '!rm x'",
            ],
        ),
        (
            Allow,
            &[
                "git branch",
                "git branch new",
                "git branch -d merged",
                "git branch --merged",
                "git branch --format='%(refname)'",
                "git branch -c new",
                "git checkout main",
                "git checkout -b new",
                "git switch main",
                "git switch -c new",
                "git switch --create new",
                "git tag v2",
                "git tag -a v2 -m two",
                "git tag --format='%(refname)' --list",
                "git fetch origin",
                "git fetch --prune origin",
                "git fetch origin main:new",
                "git pull --rebase",
                "git pull --prune origin main",
                "git worktree add -b new y main",
                "git stash list",
                "git-status",
                "git-lfs pull",
                "git symbolic-ref --short HEAD",
                "git symbolic-ref refs/remotes/origin/HEAD",
                "git reflog show",
                "git rebase main",
            ],
        ),
    ];
    let wrong = cases.iter().flat_map(|(expected, lines)| lines.iter().map(move |line| (line, *expected)));
    let wrong: Vec<String> = wrong
        .map(|(line, expected)| (line, expected, verdict(&super::Permissions::default(), line)))
        .filter(|(_, expected, verdict)| verdict.action != *expected)
        .map(|(line, expected, verdict)| format!("{line:?} is not {expected:?}: {verdict:?}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Everything is allowed but `rm` and `git push`: what is left is what rules see through.
fn lenient() -> super::Permissions {
    let bash = [("*", Action::Allow), ("rm *", Action::Deny), ("git push *", Action::Deny)];
    rules(&[("bash", &bash), ("external_directory", &[("*", Action::Allow)])])
}

fn wrong_by(permissions: &super::Permissions, lines: &[&str], right: impl Fn(Action) -> bool) -> Vec<String> {
    let judged = lines.iter().map(|line| (line, verdict(permissions, line)));
    judged
        .filter(|(_, verdict)| !right(verdict.action))
        .map(|(line, verdict)| format!("{line:?}: {verdict:?}"))
        .collect()
}

/// A19, A23: a command is seen behind programs that run what they are given, in words or in a text.
#[test]
fn a_wrapper_hides_nothing() {
    let denied = [
        "trap -- 'rm x' 0",
        "trap -- 'rm x' EXIT",
        "command trap -- 'rm x' 0",
        "builtin trap -- 'rm x' 0",
        "builtin trap 'rm x' 0",
        "flock lk rm x",
        "flock lk -c 'rm x'",
        "flock -n lk -c 'rm x'",
        "flock lk --command 'rm x'",
        "flock --wait 3 --close lk sh -c 'rm x'",
        "setpriv --no-new-privs sh -c 'rm x'",
        "setpriv --reuid 0 rm x",
        "setpriv --reuid=0 rm x",
        "setarch x86_64 -R sh -c 'rm x'",
        "setarch -R rm x",
        "setarch x86_64 rm x",
        "linux64 rm x",
        "linux32 -R sh -c 'rm x'",
        "i386 sh -c 'rm x'",
        "sg users -c 'rm x'",
        "sg users 'rm x'",
        "sg - users -c 'rm x'",
        "capsh -- -c 'rm x'",
        "choom -n 0 -- sh -c 'rm x'",
        "bash //dev/stdin <<< 'rm x'",
        "bash /./dev/stdin <<< 'rm x'",
        "bash /../dev//fd/0 <<< 'rm x'",
        "bash /tmp/../dev/stdin <<< 'rm x'",
        "bash /dev/fd/../../self/fd/0 <<< 'rm x'",
        "bash ../../../../dev/stdin <<< 'rm x'",
        "frob sh -c 'rm x'",
        "frob -n 3 /bin/bash -ec 'git push'",
    ];
    let doubted = [
        "flock lk -c \"$x\"",
        "newgrp <<< 'rm x'",
        "python3 /dev/stdin <<< x",
        "python3 /dev/fd/0",
        "python3 //dev/stdin <<< x",
        "make -f //dev/stdin <<< x",
        "python3 -m timeit x",
        "python3 -mtimeit x",
        "python3 -um timeit -s x y",
        "python3 -m code <<< x",
        "python3 -m \"$x\"",
        "node /dev/stdin",
        "find . -exec {} a \\;",
        "find . -exec env {} a \\;",
        "find . -exec sh -c {} \\;",
        "frob python3 -c x",
        "frob 'rm x'",
        "frob -c 'cd a; rm x'",
    ];
    let plain = [
        "trap - EXIT",
        "trap -p EXIT",
        "trap -- - EXIT",
        "trap -- 'ls' EXIT",
        "flock lk ls",
        "flock -n lk -c 'ls'",
        "setpriv --no-new-privs ls",
        "setarch x86_64 -R ls",
        "linux64 ls",
        "sg users -c ls",
        "python3 -m pytest -c x",
        "python3 -m http.server",
        "python3 x.py -m code",
        "bash dev/stdin",
        "cd a && bash ../dev/setup.sh",
        "find . -exec cat {} +",
        "frob --shell bash x",
        "frob 'a text about farms'",
    ];
    let lenient = lenient();
    let mut wrong = wrong_by(&lenient, &denied, |action| action == Action::Deny);
    wrong.extend(wrong_by(&lenient, &doubted, |action| action != Action::Allow));
    wrong.extend(wrong_by(&lenient, &plain, |action| action == Action::Allow));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    none_is_allowed(&["trap -- 'touchx' 0", "trap -- \"$x\" 0", "python3 /dev/stdin", "python3 -m timeit x"]);
}

/// A19, A23: a long option is what it is shortened to.
#[test]
fn a_shortened_option_is_the_option() {
    let defaults = super::Permissions::default();
    let denied =
        ["git reset --har HEAD~1", "git reset -q --ha", "git push --forc", "git tag --del v1", "rm --r x"];
    let mut wrong = wrong_by(&defaults, &denied, |action| action == Action::Deny);
    let written = rules(&[("bash", &[("*", Action::Allow), ("frob --wipe-all *", Action::Deny)])]);
    let wiping = ["frob --wipe-all", "frob --wipe", "frob --wi=x", "frob a --w"];
    wrong.extend(wrong_by(&written, &wiping, |action| action == Action::Deny));
    let others = ["frob -- wipe", "frob --", "frob --wise", "frob wipe", "frob --all"];
    wrong.extend(wrong_by(&written, &others, |action| action == Action::Allow));
    let plain = ["git reset --soft HEAD~1", "git reset --help", "git reset -- hard", "git log --format=%H"];
    wrong.extend(wrong_by(&defaults, &plain, |action| action == Action::Allow));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A20, A23: a variable that bash keeps as a number evaluates what it is given, however it is given.
#[test]
fn what_a_number_of_bash_is_given_is_evaluated() {
    let forms = [
        "RANDOM='a[$(rm x)]'",
        "RANDOM='a[$(rm x)]' true",
        "RANDOM+='a[$(rm x)]'",
        "RANDOM[0]='a[$(rm x)]'",
        "RANDOM=a[\\$\\(rm\\ x\\)]",
        "x='a[$(rm x)]'; RANDOM=$x",
        "x='a[$(rm x)]'; RANDOM=x",
        "export RANDOM='a[$(rm x)]'",
        "declare RANDOM='a[$(rm x)]'",
        "readonly RANDOM='a[$(rm x)]'",
        "f() { local RANDOM='a[$(rm x)]'; }; f",
        "command export RANDOM='a[$(rm x)]'",
        "builtin declare RANDOM+='a[$(rm x)]'",
        "command export RANDOM=\"$x\"",
        "read RANDOM <<< 'a[$(rm x)]'",
        "read -r a RANDOM <<< 'y a[$(rm x)]'",
        "read -aRANDOM <<< 'a[$(rm x)]'",
        "for RANDOM in 'a[$(rm x)]'; do true; done",
        "printf -v RANDOM %s 'a[$(rm x)]'",
        "printf -vRANDOM %s 'a[$(rm x)]'",
        "mapfile RANDOM <<< 'a[$(rm x)]'",
        "getopts a RANDOM",
        "wait -pRANDOM",
        "true ${RANDOM:='a[$(rm x)]'}",
        "bash -c 'RANDOM=$1' x 'a[$(rm x)]'",
    ];
    let names = ["RANDOM", "SRANDOM", "HISTCMD", "SECONDS", "LINENO", "EPOCHSECONDS", "BASHPID"];
    let lines: Vec<String> =
        names.iter().flat_map(|name| forms.iter().map(move |form| form.replace("RANDOM", name))).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut wrong = wrong_by(&lenient(), &lines, |action| action != Action::Allow);
    // A number is not all of this value.
    let tail = ["x=$((1)),'a[$(rm x)]'; echo $((x))"];
    wrong.extend(wrong_by(&lenient(), &tail, |action| action != Action::Allow));
    let plain = [
        "SECONDS=0; ls; echo $SECONDS",
        "RANDOM=42",
        "export RANDOM='7'",
        "echo $((RANDOM % 6))",
        "read line <<< 'a[$(x)]'",
        "x=$((1 + 2)); echo $((x))",
    ];
    wrong.extend(wrong_by(&lenient(), &plain, |action| action == Action::Allow));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A23: a rule for one name does not hold for what another command of the line makes of that name.
#[test]
fn what_renames_vouches_for_no_other_command() {
    let names = ["alias", "shopt", "hash", "enable", "source", ".", "ls", "builtin"];
    let patterns: Vec<String> = names.iter().map(|name| format!("{name} *")).collect();
    let mut bash: Vec<(&str, Action)> = patterns.iter().map(|name| (name.as_str(), Action::Allow)).collect();
    bash.push(("*", Action::Ask));
    let named = rules(&[("bash", &bash)]);
    let renamed = [
        "alias ls=touchx; ls",
        "alias ls=touchx\nls -la",
        "shopt -s expand_aliases; ls",
        "hash -p ./touchx ls; ls",
        "hash -rp ./touchx ls; ls",
        "x=-p; hash $x ./touchx ls; ls",
        "hash -{r,p} ./touchx ls; ls",
        "x=expand_aliases; shopt -s $x; ls",
        "enable -f ./x ls; ls",
        "source ./x && ls",
        ". ./x; ls",
        "builtin alias ls=touchx; ls",
        "{ alias ls=touchx; }; (ls)",
    ];
    let mut wrong = wrong_by(&named, &renamed, |action| action != Action::Allow);
    let fed = [
        "source /dev/stdin <<< touchx",
        ". /dev/stdin <<E\ntouchx\nE",
        ". -- /dev/fd/3",
        "source /proc/self/fd/0",
        ". //dev/stdin <<< touchx",
    ];
    wrong.extend(wrong_by(&named, &fed, |action| action != Action::Allow));
    let plain = [
        "alias ls=x",
        "source ./x",
        ". ./x",
        "shopt -s nullglob; ls",
        "hash -r; ls",
        "hash cp; ls",
        "ls; ls",
    ];
    wrong.extend(wrong_by(&named, &plain, |action| action == Action::Allow));
    let open = ["chmod 0777 x", "chmod 00777 x", "chmod a+rwx x", "chmod -R a=rwx x", "chmod ugo+rwx x"];
    wrong.extend(wrong_by(&super::Permissions::default(), &open, |action| action == Action::Deny));
    let narrow = ["chmod 755 x", "chmod 0755 x", "chmod u+rwx x", "chmod a+x x"];
    wrong.extend(wrong_by(&super::Permissions::default(), &narrow, |action| action == Action::Allow));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A rule about paths is not walked past with wildcards; ordinary ones stay what they are.
#[test]
fn a_wildcard_meets_the_rules_of_what_it_may_become() {
    use Action::{Allow, Ask, Deny};
    let mut permissions = super::Permissions::default();
    permissions.extend(rules(&[("write", &[("src/gen/*", Deny)])]));
    let cases: &[(Action, &[&str])] = &[
        (Deny, &["cat *.pem", "echo x > src/gen/*", "cat conf/secrets.*", "cat ../*", "cat a.pem *.rs"]),
        (
            Ask,
            &[
                "sed -i s/gen/x/ src/g*/f",
                "echo x > src/ge?/f",
                "echo x > src/[g]en/f",
                "cd src && echo x > g*/f",
                "for d in src/g*; do echo x > $d/f; done",
                "d=src/g*; tee $d/f",
                "rm long*.yaml",
                "cat < conf/s*",
                "cat conf/s*",
                "head -3 my.k*",
                "cp conf/*cred* x",
            ],
        ),
        (
            Allow,
            &[
                "cat *.rs",
                "cat *",
                "ls *",
                "ls conf/s*",
                "cat notes.*",
                "cp *.o x",
                "ls src/*.rs tests/*/mod.rs",
                "wc -l src/*.rs docs/*.md",
                "sed -i s/a/b/ src/*.rs",
                "cat src/gen/*.rs",
                "cat '*'",
                "grep -n '*.pem' a.rs",
                "echo *",
                "git add *",
            ],
        ),
    ];
    let mut wrong = Vec::new();
    for (expected, lines) in cases {
        wrong.extend(wrong_by(&permissions, lines, |action| action == *expected));
    }
    let ordinary = ["cp src/* x", "mv src/*.o x", "ls *"];
    wrong.extend(wrong_by(&super::Permissions::default(), &ordinary, |action| action == Allow));
    let mut private = super::Permissions::default();
    private.extend(rules(&[("read", &[("conf/private.txt", Deny)])]));
    let shows =
        ["cat conf/*", "cat conf/p*", "cat < conf/p*", "cp conf/* x", "grep x conf/*.txt", "wc -l c*/*"];
    wrong.extend(wrong_by(&private, &shows, |action| action == Ask));
    let names = ["ls conf/*", "stat conf/p*", "test -e conf/p*", "cat conf/*.rs", "cat src/*"];
    wrong.extend(wrong_by(&private, &names, |action| action == Allow));
    // Nobody who leaves doubts to the agent is asked in the name of a rule.
    assert_eq!(verdict(&permissions, "sed -i s/gen/x/ src/g*/f").rule, None);
    // An allowed place is left alone if nothing else can be meant.
    let outside = [("*", Deny), ("/tmp/*", Allow), ("/tmp/own/*", Ask)];
    let outside = rules(&[("bash", &[("*", Allow)]), ("external_directory", &outside)]);
    wrong.extend(wrong_by(&outside, &["cat /tmp/x*", "cat /tmp/*.rs"], |action| action == Allow));
    wrong.extend(wrong_by(&outside, &["cat /tmp/o*/x"], |action| action == Ask));
    wrong.extend(wrong_by(&outside, &["cat /t*/x", "cat /*"], |action| action == Deny));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What stands behind a word that may be nothing is looked at as the command that it may be.
#[test]
fn a_word_that_may_be_nothing_hides_no_command() {
    let lines = [
        "$! eval 'rm -rf x'",
        "$none bash -c 'rm -rf x'",
        "$! $none builtin eval 'rm -rf x' \"`echo`\"",
        "$(true) env rm -rf x",
    ];
    let wrong = wrong_by(&super::Permissions::default(), &lines, |action| action == Action::Deny);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
