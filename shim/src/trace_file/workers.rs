//! Worker threads that hash and store long payloads beside the calling thread.
//!
//! They are made at the first long payload; a program without any has none. They sleep until there is work.
//! While they read the program's memory, its thread takes no signal: a handler that jumps out of the call
//! could let the program free the memory that they read. A forked child has none of its parent's, and a
//! recording of its own.

use crate::os::generation;
use crate::os::lock::Lock;
use crate::os::thread;
use crate::os::transparency::uninterrupted;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Condvar, PoisonError};
use std::time::Duration;

/// Beside the thread whose call it is.
const MOST: usize = 4;
const STACK: usize = 256 << 10;

#[derive(Default)]
pub(crate) struct Workers {
    are_asked_for: AtomicBool,
    count: AtomicUsize,
    /// Of which steps are left.
    jobs: Lock<VecDeque<Arc<Job>>>,
    wanted: Condvar,
}

/// By its number. It is given memory to use, which keeps its capacity.
type Step = dyn Fn(usize, &mut Vec<u8>) + Send + Sync;

/// Steps that may be done by anybody, in any order.
struct Job {
    step: Box<Step>,
    steps: usize,
    next: AtomicUsize,
    left: Lock<usize>,
    done: Condvar,
}

impl Job {
    fn work(&self, scratch: &mut Vec<u8>) {
        while let Some(at) = Some(self.next.fetch_add(1, Relaxed)).filter(|at| *at < self.steps) {
            if catch_unwind(AssertUnwindSafe(|| (self.step)(at, scratch))).is_err() {
                generation::off("an internal error");
            }
            let mut left = self.left.lock();
            *left -= 1;
            if *left == 0 {
                self.done.notify_all();
            }
        }
    }

    /// Until others are done with what they have begun; never in a child that was forked meanwhile.
    fn wait(&self, process: u32) {
        const A_WHILE: Duration = Duration::from_millis(100);
        let mut left = self.left.lock();
        while *left > 0 && std::process::id() == process {
            left = self.done.wait_timeout(left, A_WHILE).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Workers {
    /// What `step` gives for each number below `steps`; none where it failed.
    pub(crate) fn share<T: Send + 'static>(
        &'static self,
        steps: usize,
        step: impl Fn(usize, &mut Vec<u8>) -> T + Send + Sync + 'static,
    ) -> Vec<Option<T>> {
        let found: Arc<Vec<Lock<Option<T>>>> = Arc::new((0..steps).map(|_| Lock::default()).collect());
        let all = found.clone();
        let job = Arc::new(Job {
            step: Box::new(move |at, scratch| {
                let given = step(at, scratch);
                *all[at].lock() = Some(given);
            }),
            steps,
            next: AtomicUsize::new(0),
            left: Lock::new(steps),
            done: Condvar::new(),
        });
        if self.have_any() {
            uninterrupted(|| self.run_shared(&job));
        } else {
            job.work(&mut Vec::new());
        }
        found.iter().map(|found| found.lock().take()).collect()
    }

    fn run_shared(&self, job: &Arc<Job>) {
        let process = std::process::id();
        self.jobs.lock().push_back(job.clone());
        self.wanted.notify_all();
        job.work(&mut Vec::new());
        self.jobs.lock().retain(|other| !Arc::ptr_eq(other, job));
        job.wait(process);
    }

    /// Makes them, as many as there are processors to spare, if that has not been done. With no lock held:
    /// to make a thread may wait for the loader, and whoever holds that may wait for this.
    fn have_any(&'static self) -> bool {
        if !self.are_asked_for.swap(true, Relaxed) {
            let of = std::ptr::from_ref(self).cast_mut().cast();
            let spare = MOST.min(processors().saturating_sub(1));
            (0..spare).take_while(|_| thread::spawn(STACK, help, of)).for_each(|_| {
                self.count.fetch_add(1, Relaxed);
            });
        }
        self.count.load(Relaxed) > 0
    }

    /// The next job, which stays until nobody has to begin a step of it.
    fn next(&self) -> Arc<Job> {
        let mut jobs = self.jobs.lock();
        loop {
            jobs.retain(|job| job.next.load(Relaxed) < job.steps);
            if let Some(job) = jobs.front() {
                return job.clone();
            }
            jobs = self.wanted.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

extern "C" fn help(workers: *mut libc::c_void) -> *mut libc::c_void {
    thread::begin(c"cutrace-payload");
    // SAFETY: handed over by `have_any`, whose workers are never freed.
    let workers: &'static Workers = unsafe { &*workers.cast() };
    let mut scratch = Vec::new();
    loop {
        workers.next().work(&mut scratch);
    }
}

/// That this process may run on.
fn processors() -> usize {
    // SAFETY: fills the set that it is given.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        match libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) {
            0 => libc::CPU_COUNT(&set) as usize,
            // More of them than the set can name.
            _ => MOST + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Barrier;

    #[test]
    fn each_step_is_done_once_whoever_asks() {
        let workers: &Workers = Box::leak(Box::default());
        let sum = || workers.share(1000, |at, _| at).into_iter().flatten().sum::<usize>();
        std::thread::scope(|scope| {
            let asking: Vec<_> = (0..3).map(|_| scope.spawn(sum)).collect();
            asking.into_iter().for_each(|asking| assert_eq!(asking.join().unwrap(), 999 * 1000 / 2));
        });
        assert!(workers.jobs.lock().is_empty());
    }

    #[test]
    fn handlers_wait_until_others_have_read() {
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
        static LEFT: AtomicUsize = AtomicUsize::new(0);
        static HANDLED: AtomicUsize = AtomicUsize::new(0);
        extern "C" fn handler(_: libc::c_int) {
            HANDLED.fetch_add(1, SeqCst);
            LEFT.fetch_max(BEGUN.load(SeqCst), SeqCst);
        }
        // SAFETY: a handler that only counts, of a signal that no other test sends.
        unsafe { libc::signal(libc::SIGUSR2, handler as *const () as libc::sighandler_t) };
        let workers: &Workers = Box::leak(Box::default());
        if !workers.have_any() {
            return;
        }
        // SAFETY: the thread that asks is there until all steps are done.
        let asking = unsafe { libc::pthread_self() };
        let step = move |_, _: &mut Vec<u8>| {
            BEGUN.fetch_add(1, SeqCst);
            // SAFETY: as above.
            unsafe { libc::pthread_kill(asking, libc::SIGUSR2) };
            std::thread::sleep(Duration::from_millis(1));
            BEGUN.fetch_sub(1, SeqCst);
        };
        workers.share(16, step);
        assert_eq!((HANDLED.load(SeqCst), LEFT.load(SeqCst)), (1, 0), "signals, and steps under way when they came");
    }

    #[test]
    fn others_help() {
        let workers: &Workers = Box::leak(Box::default());
        let all = processors().min(MOST + 1);
        // None goes on before each has a step.
        let together = Barrier::new(all);
        let step = move |_, _: &mut Vec<u8>| {
            together.wait();
            std::thread::current().id()
        };
        let threads: HashSet<_> = workers.share(all, step).into_iter().flatten().collect();
        assert_eq!(threads.len(), all);
    }
}
