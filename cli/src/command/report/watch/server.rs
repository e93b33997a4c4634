//! The server of a page: one thread for all connections, each limited in bytes and seconds.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, REFERRER_POLICY};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rtc_runs::record::sha256;
use rtc_session::failure::SessionFailure;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

/// Connections at a time; one more ends the slowest.
const CONNECTIONS: usize = 64;

/// Connections that the system holds until the server accepts them.
const BACKLOG: u32 = 1024;

/// Bytes of a header.
const HEADER_BYTES: usize = 8 << 10;

/// Time for a client to send a header.
const HEADER_TIME: Duration = Duration::from_secs(5);

/// Time of a connection: for its one request, and for the client to read the response.
const CONNECTION_TIME: Duration = Duration::from_secs(30);

/// Time that a request waits for a look at the records; afterwards the last page is its response.
const LOOK_TIME: Duration = Duration::from_millis(50);

/// Pause after a failed accept, if no connection is left to be ended.
const PAUSE: Duration = Duration::from_millis(100);

/// A page and the version of its records. Copies share their text.
#[derive(Clone)]
pub(super) struct Page {
    version: Bytes,
    html: Bytes,
}

impl Page {
    pub(super) fn new(version: String, html: String) -> Self {
        Self { version: version.into(), html: html.into() }
    }
}

/// A server that runs on its own thread until the process ends.
pub(super) struct ReportServer {
    address: String,
    asked: Receiver<()>,
    shown: watch::Sender<Page>,
}

impl ReportServer {
    /// Serves `page` on a port of the loopback address; 0 is a free one.
    pub(super) fn start(port: u16, page: Page) -> Result<Self, SessionFailure> {
        let failed = |error| SessionFailure::io("start", Path::new("the server of the page"), error);
        let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let not_bound = |error| SessionFailure::io("listen on", Path::new(&address.to_string()), error);
        let (listener, bound) = runtime.block_on(async { listen(address) }).map_err(not_bound)?;
        let token = token()?;
        let (shown, pages) = watch::channel(page);
        // One request that waits to be seen stands for all.
        let (asks, asked) = sync_channel(1);
        let hosts = [bound.to_string(), format!("localhost:{}", bound.port())];
        let site = Arc::new(SharedPages { hosts, token: sha256(&token), pages, asks });
        let serve = move || runtime.block_on(serve(&listener, &site));
        thread::Builder::new().name("server".to_owned()).spawn(serve).map_err(failed)?;
        Ok(Self { address: format!("http://{bound}/{token}/"), asked, shown })
    }

    /// The address of the page, with the token.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Waits for a request of the page. Returns `false` if the server has ended, which is a fault.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.recv().is_ok()
    }

    /// Shows a new page, or the same if nothing has changed, to the requests that wait and to all that come.
    pub(super) fn show(&self, new: Option<Page>) {
        self.shown.send_modify(|page| {
            if let Some(new) = new {
                *page = new;
            }
        });
    }
}

/// Listens on an address, and returns it with its port. Needs the context of a runtime.
fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = TcpSocket::new_v4()?;
    // Without it the port of an ended server stays taken for a minute. On Windows it would let others take the port.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

/// Returns 128 random bits of the system in hexadecimal digits.
fn token() -> Result<String, SessionFailure> {
    let mut bytes = [0; 16];
    let failed = |error: getrandom::Error| io::Error::other(error.to_string());
    let filled = getrandom::fill(&mut bytes).map_err(failed);
    filled.map_err(|error| SessionFailure::io("read", Path::new("the random numbers of the system"), error))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

/// A connection that was accepted.
struct Connection {
    task: JoinHandle<()>,
    /// Whether it has asked for the page, with the token.
    is_reader: Arc<AtomicBool>,
}

/// Accepts connections for ever.
async fn serve(listener: &TcpListener, site: &Arc<SharedPages>) -> Infallible {
    // Oldest first.
    let mut connections: Vec<Connection> = vec![];
    loop {
        let accepted = listener.accept().await;
        connections.retain(|connection| !connection.task.is_finished());
        match accepted {
            Ok((stream, _)) => {
                if connections.len() >= CONNECTIONS {
                    end_slowest(&mut connections).await;
                }
                connections.push(Connection::start(stream, Arc::clone(site)));
            }
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) => {}
            // The process or the system has no descriptor left.
            Err(_) if connections.is_empty() => sleep(PAUSE).await,
            Err(_) => end_slowest(&mut connections).await,
        }
    }
}

/// Ends the oldest connection without a complete request, else the oldest. There must be one.
async fn end_slowest(connections: &mut Vec<Connection>) {
    let waits = |connection: &Connection| !connection.is_reader.load(Ordering::Relaxed);
    let slowest = connections.remove(connections.iter().position(waits).unwrap_or(0));
    slowest.task.abort();
    // Its descriptor is free when the task is gone.
    let _ = slowest.task.await;
}

impl Connection {
    fn start(stream: TcpStream, site: Arc<SharedPages>) -> Self {
        let is_reader = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_reader);
        let service = service_fn(move |request| {
            let (site, flag) = (Arc::clone(&site), Arc::clone(&flag));
            async move { Ok::<_, Infallible>(site.answer(request, &flag).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIME)
            .max_buf_size(HEADER_BYTES)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        let task = tokio::spawn(async {
            // A client that is too slow, broken or gone is no failure of the server.
            let _ = timeout(CONNECTION_TIME, connection).await;
        });
        Self { task, is_reader }
    }
}

/// The two texts that a browser may ask for.
enum PageRequest {
    Html,
    Version,
}

/// A refused request: the status and text of the response.
type RefusedRequest = (StatusCode, &'static str);

/// Everything that connections share.
struct SharedPages {
    /// The values allowed in the header `Host`.
    hosts: [String; 2],
    /// The hash of the token: the time to compare hashes tells nothing about the token.
    token: String,
    pages: watch::Receiver<Page>,
    asks: SyncSender<()>,
}

impl SharedPages {
    /// Answers a request; sets `is_reader` if it asks for the page with the token.
    async fn answer(&self, request: Request<Incoming>, is_reader: &AtomicBool) -> Response<Full<Bytes>> {
        let (status, kind, text) = match self.asked(&request) {
            Ok(asked) => {
                is_reader.store(true, Ordering::Relaxed);
                let page = self.page().await;
                match asked {
                    PageRequest::Html => (StatusCode::OK, "text/html; charset=utf-8", page.html),
                    PageRequest::Version => (StatusCode::OK, "text/plain; charset=utf-8", page.version),
                }
            }
            Err((status, text)) => (status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes())),
        };
        let mut response = Response::new(Full::new(text));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        // The address is a secret.
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        if status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        response
    }

    /// Returns what a request asks for, unless it is refused. Without the token there is nothing, not even a reason.
    fn asked(&self, request: &Request<Incoming>) -> Result<PageRequest, RefusedRequest> {
        const NOTHING: RefusedRequest = (StatusCode::NOT_FOUND, "");
        let host = request.headers().get(HOST);
        // A page of another site may give its own name to this address.
        if !host.is_some_and(|host| self.hosts.iter().any(|own| host.as_bytes() == own.as_bytes())) {
            return Err((StatusCode::FORBIDDEN, "only this machine is answered\n"));
        }
        let path = request.uri().path().strip_prefix('/').and_then(|path| path.split_once('/'));
        let path = path.and_then(|(token, path)| (sha256(token) == self.token).then_some(path)).ok_or(NOTHING)?;
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n"));
        }
        if !request.body().is_end_stream() {
            return Err((StatusCode::PAYLOAD_TOO_LARGE, "a request must have no body\n"));
        }
        match path {
            "" => Ok(PageRequest::Html),
            "version" => Ok(PageRequest::Version),
            _ => Err(NOTHING),
        }
    }

    /// Returns the page after a look at the records, or the last page if that takes long.
    async fn page(&self) -> Page {
        let mut pages = self.pages.clone();
        pages.mark_unchanged();
        // It fails if a look is asked for already.
        let _ = self.asks.try_send(());
        let _ = timeout(LOOK_TIME, pages.changed()).await;
        pages.borrow().clone()
    }
}
