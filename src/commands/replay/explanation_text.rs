//! The reason of a divergence, as text and as JSON.

use super::explain::{Explanation, Why, shown};
use analysis::text::figures::counted;
use replayer::{Submission, UnorderedPair};
use serde_json::{Value, json};
use std::io::{Result, Write};
use trace::code::varying::Cause;

pub(super) fn text(out: &mut impl Write, explained: &Explanation) -> Result<()> {
    if let Why::GivenUp(why) = &explained.why {
        return writeln!(out, "  not explained: {why}");
    }
    let launches = counted(explained.compared, "launch");
    let call = explained.call;
    let agree = match (&explained.parting, explained.agree) {
        (Some(parting), _) => format!("they differ first at call {}, launch {}", parting.call, explained.compared),
        (None, Some(true)) if explained.compared == 0 => format!("both find the same at call {call}"),
        (None, Some(true)) => format!("they agree on all {launches} before call {call}, and on its result"),
        (None, _) => format!("they agree on {launches}, but not on the result of call {call}"),
    };
    let times = if explained.was_followed { "once more" } else { "twice" };
    writeln!(out, "  again        {times}, with launches one by one: {agree}")?;
    if let Some(parting) = explained.parting.as_ref().filter(|parting| !parting.memory.is_empty()) {
        writeln!(out, "  differs in   {}", parting.memory.join(", "))?;
        if !matches!(explained.why, Why::Launch) {
            writeln!(out, "               which does not affect the result of call {call}")?;
        }
    }
    because(out, explained)?;
    if let Why::Order = explained.why {
        let how = match explained.has_waited {
            true => "this replay waited for each launch, the program does not",
            false => "if each launch is waited for",
        };
        let not = if explained.has_waited { "without waiting" } else { "here" };
        writeln!(out, "  waiting      {how}: call {call} then has another result than {not}")?;
    }
    if let Some(UnorderedPair(earlier, later)) = &explained.unordered {
        writeln!(out, "  no order     {}", submission(earlier))?;
        writeln!(out, "               {}", submission(later))?;
        writeln!(out, "               both use the same memory, and no event or wait orders them")?;
    }
    if explained.depends_on_fill {
        writeln!(
            out,
            "  likely cause it reads memory that was never written: replay --fill 0xa5 gives another result"
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
            writeln!(
                out,
                "  likely cause unknown: the code of {kernel} shows no cause; a race, or uninitialised memory?"
            )
        }
        Some(Ok(causes)) => {
            causes.iter().try_for_each(|cause| writeln!(out, "  likely cause {kernel} {}", cause.what()))
        }
        Some(Err(Some(why))) => writeln!(out, "  likely cause unknown: the code of {kernel} is {}", why.why()),
        Some(Err(None)) => writeln!(out, "  likely cause unknown: the trace has no readable code of {kernel}"),
    }
}

fn submission(Submission { call, function, kernel, stream }: &Submission) -> String {
    let kernel = kernel.as_ref().map_or_else(String::new, |kernel| format!(" {}", shown(kernel)));
    format!("call {call} {function}{kernel} on {stream}")
}

pub(super) fn object(explained: &Explanation) -> Value {
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
