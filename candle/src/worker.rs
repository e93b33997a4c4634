//! The thread that a model computes in. Executors share handles that must not cross threads, so one is made, used and dropped in its
//! own; what is asked of it waits in a queue.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};

use candle_core::Result;
use rayon::{ThreadPool, ThreadPoolBuilder};
use rtc_exec::Executor;
use rtc_exec::model::Function;
use rtc_tensor::TensorExecutor;

use crate::failure::failed;

/// Stack of a thread that computes, in bytes: enough for any nesting. Only what is used is ever there.
const STACK: usize = 1 << 26;

/// A model on the machine that computes it.
pub(crate) enum Engine {
    /// On the processor.
    Host(Box<Function<Executor<f32>>>),
    /// On a graphics card.
    #[cfg(feature = "cuda")]
    Gpu(Box<crate::gpu::GpuEngine>),
    /// By kernels of Candle, on any of its devices.
    Tensors(Box<Function<TensorExecutor<f32>>>),
}

type EngineJob = Box<dyn FnOnce(&mut Engine) + Send>;

/// The thread, with the others that share its work.
pub(crate) struct Worker {
    jobs: Sender<EngineJob>,
    _pool: ThreadPool,
}

impl Worker {
    /// Starts it, makes the model there, and gives what is to be known of it.
    pub(crate) fn start<T: Send + 'static>(
        open: impl FnOnce() -> Result<(Engine, T)> + Send + 'static,
    ) -> Result<(Self, T)> {
        let threads = rayon::current_num_threads();
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .stack_size(STACK)
            .thread_name(|_| "rtc".to_owned())
            .build()
            .map_err(failed)?;
        let ((jobs, asked), (tell, told)) = (channel(), channel());
        // Inside the pool: work that came from outside would be handed over for every kernel.
        pool.spawn(move || {
            // After a panic nothing is told, and the other side knows.
            match catch_unwind(AssertUnwindSafe(open)) {
                Ok(Ok((engine, facts))) => {
                    let _ = tell.send(Ok(facts));
                    serve(engine, &asked);
                }
                Ok(Err(error)) => drop(tell.send(Err(error))),
                Err(_) => {}
            }
        });
        let facts = told.recv().map_err(|_| fault())??;
        Ok((Self { jobs, _pool: pool }, facts))
    }

    /// Lets it do something, and waits.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Engine) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (tell, told) = channel();
        let job = move |engine: &mut Engine| {
            let _ = tell.send(job(engine));
        };
        self.jobs.send(Box::new(job)).map_err(|_| fault())?;
        told.recv().map_err(|_| fault())?
    }
}

/// Works until nobody can ask any more. After a panic the state of the executor is unknown, and nothing more is done.
fn serve(mut engine: Engine, asked: &Receiver<EngineJob>) {
    while let Ok(job) = asked.recv() {
        if catch_unwind(AssertUnwindSafe(|| job(&mut engine))).is_err() {
            return;
        }
    }
}

fn fault() -> candle_core::Error {
    failed("a fault of rtc has ended the thread of this model, which said why on standard error: open the model again")
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Worker")
    }
}
