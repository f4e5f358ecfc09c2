//! Why a replay diverged, as text and as JSON.

use super::explain::{Explanation, Why, shown};
use analysis::text::figures::counted;
use replayer::{Submission, UnorderedPair};
use serde_json::{Value, json};
use std::io::{Result, Write};
use trace::code::varying::Cause;

pub fn text(out: &mut impl Write, explained: &Explanation) -> Result<()> {
    if let Why::GivenUp(why) = &explained.why {
        return writeln!(out, "  not explained: {why}");
    }
    let launches = counted(explained.compared, "launch");
    let call = explained.call;
    let agree = match (&explained.parting, explained.agree) {
        (Some(parting), _) => format!("they part at call {}, after {launches} with that one", parting.call),
        (None, Some(true)) => format!("they agree at {launches} up to call {call}, and in what differs"),
        (None, _) => format!("they agree at {launches}, and not in what call {call} brings"),
    };
    let times = if explained.was_followed { "once more" } else { "twice" };
    writeln!(out, "  again        {times}, with launches one by one: {agree}")?;
    if let Some(parting) = explained.parting.as_ref().filter(|parting| !parting.memory.is_empty()) {
        writeln!(out, "  differs in   {}", parting.memory.join(", "))?;
        if !matches!(explained.why, Why::Launch) {
            writeln!(out, "               which is of no account for what call {call} brings")?;
        }
    }
    because(out, explained)?;
    if let Why::Order = explained.why {
        let how = match explained.has_waited {
            true => "each launch was waited for here, as the program does not",
            false => "where each launch is waited for",
        };
        let not = if explained.has_waited { "where none is" } else { "here" };
        writeln!(out, "  waiting      {how}: call {call} then brings something else than {not}")?;
    }
    if let Some(UnorderedPair(earlier, later)) = &explained.unordered {
        writeln!(out, "  no order     {}", submission(earlier))?;
        writeln!(out, "               {}", submission(later))?;
        writeln!(out, "               both have the same memory, and no event or wait stands between them")?;
    }
    if explained.depends_on_fill {
        writeln!(
            out,
            "  because      it reads memory that was never written: replay --fill 0xa5 brings something else"
        )?;
    }
    Ok(())
}

/// What the code of the kernel shows.
fn because(out: &mut impl Write, explained: &Explanation) -> Result<()> {
    let Some(parting) = explained.parting.as_ref().filter(|parting| !parting.is_given) else { return Ok(()) };
    let kernel = shown(&parting.kernel);
    match &explained.causes {
        None => Ok(()),
        Some(Ok(causes)) if causes.is_empty() => {
            writeln!(out, "  because      the code of {kernel} does not show it: a race, or memory that nobody wrote?")
        }
        Some(Ok(causes)) => {
            causes.iter().try_for_each(|cause| writeln!(out, "  because      {kernel} {}", cause.what()))
        }
        Some(Err(Some(why))) => writeln!(out, "  because      not known: the code of {kernel} is {}", why.why()),
        Some(Err(None)) => writeln!(out, "  because      not known: no code of {kernel} that can be read"),
    }
}

fn submission(Submission { call, function, kernel, stream }: &Submission) -> String {
    let kernel = kernel.as_ref().map_or_else(String::new, |kernel| format!(" {}", shown(kernel)));
    format!("call {call} {function}{kernel} on {stream}")
}

pub fn object(explained: &Explanation) -> Value {
    let conclusion = match explained.why {
        Why::Launch | Why::Order | Why::EachTime => "nondeterministic".into(),
        Why::Replay => "differs".into(),
        Why::GivenUp(_) => Value::Null,
    };
    let given_up = match &explained.why {
        Why::GivenUp(why) => Some(why),
        _ => None,
    };
    let causes = explained.causes.as_ref().and_then(|causes| causes.as_ref().ok());
    let cause = |cause: &Cause| json!({ "kind": cause.name(), "what": cause.what() });
    let submission =
        |of: &Submission| json!({ "call": of.call, "function": of.function, "kernel": of.kernel, "stream": of.stream });
    json!({
        "line": explained.line(),
        "conclusion": conclusion,
        "given_up": given_up,
        "replays_agree": explained.agree,
        "compared_launches": explained.compared,
        "launch": explained.parting.as_ref().map(|parting| json!({
            "call": parting.call,
            "node": parting.node,
            "kernel": parting.kernel,
            "inputs_differ": parting.is_given,
            "memory": parting.memory,
        })),
        "causes": causes.map(|causes| causes.iter().map(cause).collect::<Vec<_>>()),
        "unordered": explained.unordered.as_ref().map(|UnorderedPair(earlier, later)| {
            json!({ "earlier": submission(earlier), "later": submission(later) })
        }),
        "depends_on_waiting": matches!(explained.why, Why::Order),
        "reads_unwritten_memory": explained.depends_on_fill,
    })
}
