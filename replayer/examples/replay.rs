use replayer::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let trace = trace::Trace::open(&args[1]).unwrap();
    let plan = plan(&trace);
    println!("verdict {}; collides {:?}", plan.verdict, plan.collides_with_own_mappings());
    for r in &plan.reasons {
        println!("  {r}");
    }
    let verify = std::env::var("NOVERIFY").is_err();
    let report = replay(
        &trace,
        &plan,
        &Options {
            driver: args[2].clone().into(),
            verify,
            devices: Default::default(),
            translate: true,
            place: std::env::var("NOPLACE").is_err(),
        },
        &(),
    );
    if std::env::var("SHORT").is_ok() {
        let r = report.unwrap();
        println!(
            "{:?} divergences {} executed {} checked {:?} placement {:?} first {:#?} refused {} elapsed {:?}",
            r.outcome,
            r.divergences,
            r.executed,
            r.checked,
            r.placement,
            r.first,
            r.refused(),
            r.elapsed
        );
    } else {
        println!("{report:#?}");
    }
}
