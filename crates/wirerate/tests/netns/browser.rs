//! Chromium without a window, driven over its debugging pipe.

use crate::lab::Scratch;
use crate::program::{Running, TIME_LIMIT};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A browser; dropping it ends it.
pub(crate) struct Browser {
    _process: Running,
    _scratch: Scratch,
    orders: File,
    messages: Receiver<Value>,
    next_id: u64,
    /// Messages that answer no order.
    events: Vec<Value>,
}

/// A page of a browser.
#[derive(Clone)]
pub(crate) struct Tab(String);

impl Browser {
    /// Starts it.
    pub(crate) fn start() -> Self {
        let scratch = Scratch::new();
        let [orders, answers] = ["orders", "answers"].map(|name| scratch.file(name));
        for pipe in [&orders, &answers] {
            mkfifo(pipe, Mode::S_IRWXU).expect("the temporary folder can be written");
        }
        let profile = scratch.file("profile");
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec chromium \"$@\" 3<\"$0\" 4>\"$ANSWERS\""])
            .arg(&orders)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--disable-background-networking", "--no-first-run", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .env("ANSWERS", &answers);
        let process = Running::start(command);
        let orders = File::options().write(true).open(orders).expect("the shell opens the other end");
        let answers = BufReader::new(File::open(answers).expect("the shell opens the other end"));
        let (sender, messages) = channel();
        thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).expect("the browser writes JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Self { _process: process, _scratch: scratch, orders, messages, next_id: 0, events: Vec::new() }
    }

    /// Opens a page, and waits until its files are loaded.
    #[track_caller]
    pub(crate) fn open(&mut self, url: &str) -> Tab {
        let target = self.call(None, "Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let session = self.call(None, "Target.attachToTarget", target);
        let tab = Tab(session["sessionId"].as_str().expect("a session").to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            self.call(Some(&tab), &format!("{domain}.enable"), json!({}));
        }
        self.call(Some(&tab), "Page.navigate", json!({"url": url}));
        self.until(&tab, "document.readyState === 'complete' && location.href !== 'about:blank'");
        tab
    }

    /// Sends an order, and returns its result.
    #[track_caller]
    pub(crate) fn call(&mut self, tab: Option<&Tab>, method: &str, parameters: Value) -> Value {
        self.next_id += 1;
        let mut order = json!({"id": self.next_id, "method": method, "params": parameters});
        if let Some(Tab(session)) = tab {
            order["sessionId"] = Value::from(session.as_str());
        }
        let mut order = order.to_string().into_bytes();
        order.push(0);
        self.orders.write_all(&order).expect("the browser reads");
        loop {
            let message = self.messages.recv_timeout(TIME_LIMIT).expect("the browser answers");
            if message["id"] != self.next_id {
                self.events.push(message);
                continue;
            }
            assert!(message.get("error").is_none(), "{method}: {message}");
            return message["result"].clone();
        }
    }

    /// The value of an expression.
    #[track_caller]
    pub(crate) fn value(&mut self, tab: &Tab, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let result = self.call(Some(tab), "Runtime.evaluate", parameters);
        assert!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// The text of an element, by its selector.
    #[track_caller]
    pub(crate) fn text(&mut self, tab: &Tab, selector: &str) -> String {
        let value = self.value(tab, &format!("document.querySelector('{selector}')?.textContent ?? ''"));
        value.as_str().expect("a text").to_owned()
    }

    /// Waits until an expression is true.
    #[track_caller]
    pub(crate) fn until(&mut self, tab: &Tab, expression: &str) {
        let deadline = Instant::now() + TIME_LIMIT;
        while self.value(tab, expression) != true {
            if Instant::now() > deadline {
                let text = self.text(tab, "body");
                panic!("not true: {expression}\n{text}");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until an element contains a text.
    #[track_caller]
    pub(crate) fn until_shows(&mut self, tab: &Tab, selector: &str, text: &str) {
        self.until(tab, &format!("document.querySelector('{selector}')?.textContent.includes('{text}')"));
    }

    #[track_caller]
    pub(crate) fn click(&mut self, tab: &Tab, selector: &str) {
        self.value(tab, &format!("document.querySelector('{selector}').click()"));
    }

    /// Presses and releases a key.
    pub(crate) fn press(&mut self, tab: &Tab, key: &str, code: u32, text: &str) {
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let parameters =
                json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.call(Some(tab), "Input.dispatchKeyEvent", parameters);
        }
    }

    /// A window of this width.
    pub(crate) fn set_width(&mut self, tab: &Tab, width: u32) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call(Some(tab), "Emulation.setDeviceMetricsOverride", size);
    }

    /// The colours that the reader prefers: `light` or `dark`.
    pub(crate) fn set_colours(&mut self, tab: &Tab, colours: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": colours}]});
        self.call(Some(tab), "Emulation.setEmulatedMedia", features);
    }

    /// Messages on the console and requests to other addresses than `base`, so far.
    pub(crate) fn complaints(&mut self, base: &str) -> Vec<String> {
        let complaint = |event: &Value| match event["method"].as_str()? {
            "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded" => {
                Some(event["params"].to_string())
            }
            "Network.requestWillBeSent" => {
                let url = event["params"]["request"]["url"].as_str()?;
                (!url.starts_with(base) && !url.starts_with("data:")).then(|| url.to_owned())
            }
            _ => None,
        };
        self.events.drain(..).filter_map(|event| complaint(&event)).collect()
    }
}
