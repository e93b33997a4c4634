// Starts `rtc lsp` for specs, and again when its path changes.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function start() {
  const command = workspace.getConfiguration("rtc").get("path");
  const options = {
    documentSelector: [{ language: "rt" }],
    synchronize: { fileEvents: workspace.createFileSystemWatcher("**/*.rt") },
  };
  client = new LanguageClient("rtc", "rtc", { command, args: ["lsp"] }, options);
  return client.start();
}

exports.activate = (context) => {
  const restart = async (event) => {
    if (event.affectsConfiguration("rtc.path")) {
      await client.stop().catch(() => {});
      await start();
    }
  };
  context.subscriptions.push(workspace.onDidChangeConfiguration(restart));
  return start();
};

exports.deactivate = () => client?.stop();
