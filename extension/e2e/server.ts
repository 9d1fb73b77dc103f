// A Jupyter server of the test's own: a folder of its own, no user's configuration, the extension as it was built here.

import { spawn, type ChildProcess } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const CHECKOUT = resolve(import.meta.dirname, "../..");
export const PYTHON = process.env["EXPLORER_PYTHON"] ?? "python";
const BUILT = join(CHECKOUT, "explorer/labextension");
const MODULES = { lab: "jupyterlab", notebook: "notebook" } as const;
const START_MS = 180_000;
const TOKEN = "e2e";

export class Server {
  private constructor(
    readonly folder: string,
    private readonly home: string,
    private readonly process: ChildProcess,
  ) {}

  /** Chosen by Jupyter, which tells it in a file. */
  private port = 0;

  /** `app` is "lab" or "notebook"; `files` are copied into its folder. */
  static async start(app: "lab" | "notebook", ...files: readonly string[]): Promise<Server> {
    if (!existsSync(join(BUILT, "package.json")))
      throw new Error("the extension is not built: run `jlpm build` in extension/");
    const home = mkdtempSync(join(tmpdir(), "explorer-e2e-"));
    const folder = join(home, "notebooks");
    mkdirSync(folder);
    mkdirSync(join(home, "jupyter/labextensions"), { recursive: true });
    // A copy: a build that is made meanwhile changes nothing of what is tested.
    cpSync(BUILT, join(home, "jupyter/labextensions/torch-explorer"), { recursive: true });
    for (const file of files) cpSync(file, join(folder, file.split("/").at(-1) ?? file));
    const options = {
      "ServerApp.port": 0, "ServerApp.root_dir": folder, "ServerApp.allow_root": true,
      "ServerApp.open_browser": false, "IdentityProvider.token": TOKEN, "LabApp.extension_manager": "readonly",
      "LabApp.expose_app_in_browser": true,
      "JupyterNotebookApp.expose_app_in_browser": true, "LabApp.workspaces_dir": join(home, "workspaces"),
      "LabApp.user_settings_dir": join(home, "settings"),
    };
    const flags = Object.entries(options).map(([name, value]) => `--${name}=${capital(value)}`);
    const environment = {
      ...process.env,
      JUPYTER_CONFIG_DIR: join(home, "config"), JUPYTER_DATA_DIR: join(home, "data"),
      JUPYTER_RUNTIME_DIR: join(home, "run"),
      JUPYTER_PATH: join(home, "jupyter"), IPYTHONDIR: join(home, "ipython"), PYTHONPATH: CHECKOUT,
      XDG_CACHE_HOME: join(home, "cache"),
    };
    const server = spawn(PYTHON, ["-m", MODULES[app], ...flags],
      { cwd: folder, env: environment, stdio: ["ignore", "ignore", "pipe"] });
    const made = new Server(folder, home, server);
    made.set("@jupyterlab/apputils-extension:notification", { fetchNews: "false", checkForUpdates: false });
    await made.ready();
    return made;
  }

  /** What a user set up for a plugin, in place of what was set before; pages that are opened from now on see it. */
  set(plugin: string, settings: object): void {
    const [extension = "", name] = plugin.split(":");
    const folder = join(this.home, "settings", extension);
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, `${name}.jupyterlab-settings`), JSON.stringify(settings));
  }

  /** Puts a notebook into its folder, of these cells. */
  notebook(name: string, ...cells: readonly string[]): void {
    const made =
      cells.map(
        (source,
          n) => ({ cell_type: "code", id: `cell-${n}`, source, metadata: {}, outputs: [], execution_count: null }));
    const metadata = { kernelspec: { name: "python3", display_name: "Python 3", language: "python" } };
    writeFileSync(join(this.folder, name), JSON.stringify({ cells: made, metadata, nbformat: 4, nbformat_minor: 5 }));
  }

  url(path: string): string {
    const mark = path.includes("?") ? "&" : "?";
    return `http://127.0.0.1:${this.port}/${path}${mark}token=${TOKEN}`;
  }

  async stop(): Promise<void> {
    const ended = new Promise(done => this.process.once("exit", done));
    if (this.process.exitCode === null) {
      this.process.kill("SIGTERM");
      const forced = setTimeout(() => this.process.kill("SIGKILL"), 10_000);
      await ended;
      clearTimeout(forced);
    }
    rmSync(this.home, { recursive: true, force: true });
  }

  private async ready(): Promise<void> {
    let said = "";
    this.process.stderr?.on("data", (part: Buffer) => (said = (said + part.toString()).slice(-20_000)));
    const late = Date.now() + START_MS;
    for (;;) {
      if (this.process.exitCode !== null) throw new Error(`Jupyter ended with ${this.process.exitCode}:\n${said}`);
      this.port ||= toldPort(join(this.home, "run"));
      const answer = this.port ? await fetch(this.url("api/status")).catch(() => null) : null;
      if (answer?.ok) return;
      if (Date.now() > late) {
        await this.stop();
        throw new Error(`Jupyter did not answer within ${START_MS / 1000} s:\n${said}`);
      }
      await new Promise(done => setTimeout(done, 200));
    }
  }
}

function capital(value: string | number | boolean): string {
  return typeof value === "boolean" ? (value ? "True" : "False") : String(value);
}

/** The port in the file that a Jupyter server writes when it listens, 0 while there is none. */
function toldPort(folder: string): number {
  const file = existsSync(folder) ? readdirSync(folder).find(name => /^jpserver-\d+\.json$/.test(name)) : undefined;
  try {
    return file ? (JSON.parse(readFileSync(join(folder, file), "utf8")) as { port: number }).port : 0;
  } catch {
    return 0; // it is being written
  }
}
