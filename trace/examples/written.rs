fn main() {
    let trace = trace::Trace::open(std::env::args().nth(1).unwrap()).unwrap();
    for call in trace.calls() {
        for w in call.written() {
            for i in w.images() {
                println!(
                    "before call {} {} at {} (begin {}): {:#x}+{} {:02x?}",
                    call.number,
                    call.name(),
                    w.about.begin,
                    call.begin,
                    i.address,
                    i.len,
                    trace.bytes(&i).map(|b| &b[..b.len().min(12)])
                );
            }
        }
        for (n, run) in call.callback_runs().iter().enumerate() {
            for w in run {
                println!("call {} {} run {n} {}..{}", call.number, call.name(), w.about.begin, w.about.end);
                for i in w.images() {
                    println!("    {:#x}+{} {:02x?}", i.address, i.len, trace.bytes(&i).map(|b| &b[..b.len().min(12)]));
                }
            }
        }
    }
}
