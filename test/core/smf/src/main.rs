// SPDX-License-Identifier: Apache-2.0

//! The N4 side of an SMF, for `make test-core`: `core-smf ADDRESS UPF`. Its messages are encoded and decoded by rs-pfcp.
//!
//! It reads a command a line from its standard input and prints what the UPF sends, a message a line: its kind, and what
//! it says as NAME=VALUE. `response` ends a command, `request` is a request of the UPF, which is accepted. `fault` reports
//! a message or an element that rs-pfcp reads otherwise than TS 29.244 says, or that was not answered.

mod check;
mod n4;
mod rules;
mod show;

use std::error::Error;
use std::io::BufRead;
use std::net::Ipv4Addr;
use std::str::{FromStr, SplitWhitespace};

use n4::Smf;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The next word of a command.
fn word<T: FromStr>(words: &mut SplitWhitespace, name: &str) -> Outcome<T> {
    let text = words.next().ok_or_else(|| format!("{name} is missing"))?;
    text.parse().map_err(|_| format!("{name} is {text}").into())
}

/// Carries out a command.
fn run(smf: &mut Smf, line: &str) -> Outcome<()> {
    let words = &mut line.split_whitespace();
    match word::<String>(words, "command")?.as_str() {
        "associate" => smf.ask(rules::association(smf.node())),
        "heartbeat" => smf.ask(rules::heartbeat(smf.node())),
        "release" => smf.ask(rules::release(smf.node())),
        "establish" => {
            let (session, station, teid) =
                (word(words, "session")?, word::<Ipv4Addr>(words, "station")?, word(words, "TEID")?);
            smf.ask(rules::establishment(smf.node(), session, station, teid, word(words, "rejected port")?))
        }
        "establish-without-far" => smf.ask(rules::establishment_without_far(smf.node(), word(words, "session")?)),
        "tunnel" => {
            let (seid, station) = (word(words, "SEID")?, word::<Ipv4Addr>(words, "station")?);
            let (teid, end_marker) = (word(words, "TEID")?, word(words, "end marker")?);
            smf.ask(rules::tunnel(seid, station, teid, end_marker))
        }
        "buffer" => smf.ask(rules::buffer(word(words, "SEID")?)),
        "forward-unknown" => smf.ask(rules::forward_unknown(word(words, "SEID")?)),
        "forward-nameless" => smf.ask(rules::forward_nameless(word(words, "SEID")?)),
        "rate" => smf.ask(rules::rate(word(words, "SEID")?, word(words, "up")?, word(words, "down")?)),
        "threshold" => smf.ask(rules::threshold(word(words, "SEID")?, word(words, "bytes")?)),
        "query" => smf.ask(rules::query(word(words, "SEID")?)),
        "delete" => smf.ask(rules::deletion(word(words, "SEID")?)),
        other => Err(format!("no command {other}").into()),
    }
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(local), Some(upf)) = (arguments.next(), arguments.next()) else {
        return Err("usage: core-smf ADDRESS UPF".into());
    };
    let mut smf = Smf::start(local.parse()?, upf.parse()?)?;
    println!("ready");
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if let Err(why) = run(&mut smf, &line) {
            println!("fault {line}: {why}");
        }
    }
    Ok(())
}
