// The rig of the console's tests: the built gateway with a SQLite store, a scripted upstream, traffic
// from clients' keys, and Chromium. Nothing of the API is mocked.
import { execFile, spawn } from 'node:child_process';
import { createSocket as createHolder } from 'node:dgram';
import { generateKeyPairSync, randomUUID, sign as signBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createServer as createSocket } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { chromium } from 'playwright-core';
import { play } from './play.mjs';

const run = promisify(execFile);
export const bin = resolve(process.env.ISOGLOSS_BIN ?? '../bin/isogloss');

// scale runs the command that makes many rows and many requests.
export const scale = (...args) => run(resolve(process.env.SCALE_BIN ?? '../bin/console-scale'), args);

// Names that would run as HTML.
export const evil = process.env.PICTURES ? 'drafts' : '<img/src=x/onerror=alert(1)>'; // a name that would run as HTML

const listen = (server) => new Promise((done) => server.listen(0, '127.0.0.1', () => done(server.address().port)));

// bound binds a port of 127.0.0.1 with a server or a socket, and reports whether it was free.
const bound = (socket, bind) => new Promise((done, fail) => {
  socket.once('error', (e) => (e.code === 'EADDRINUSE' ? done(false) : fail(e)));
  bind(() => done(true));
});

// freePort returns a port below those of outgoing connections. Like testrig.Addresses it holds the port of
// UDP until this process ends, so that no other harness chooses it before the gateway listens.
async function freePort() {
  for (;;) {
    const port = 10_000 + Math.floor(Math.random() * 22_000);
    const held = createHolder('udp4').unref();
    if (!await bound(held, (done) => held.bind({ port, address: '127.0.0.1', exclusive: true }, done))) continue;
    const s = createSocket();
    if (!await bound(s, (done) => s.listen(port, '127.0.0.1', done))) continue;
    await new Promise((done) => s.close(done));
    return port;
  }
}

// patience is far longer than anything takes on a busy machine, in milliseconds.
export const patience = 120_000;

// until waits for a condition.
export async function until(what, check) {
  const end = Date.now() + patience;
  for (;;) {
    if (await check().catch(() => false)) return;
    if (Date.now() > end) throw new Error('timed out: ' + (typeof what === 'string' ? what : what()));
    await new Promise((done) => setTimeout(done, 50));
  }
}

// startUpstream plays a Chat Completions and a Messages server. The model's name decides what it does.
async function startUpstream() {
  let patchy = 0;
  const server = createServer((req, res) => {
    let text = '';
    req.on('data', (d) => { text += d; });
    req.on('end', () => {
      const { model = '', messages = [], stream = false } = text ? JSON.parse(text) : {};
      if (text && play(JSON.parse(text), res)) return;
      const long = JSON.stringify(messages).length;
      if (req.headers.authorization === 'Bearer sk-revoked') {
        res.writeHead(401, { 'Content-Type': 'application/json' }).end(JSON.stringify({ error: { message: 'Incorrect API key provided.', type: 'invalid_request_error', code: 'invalid_api_key' } }));
        return;
      }
      if (model.includes('broken') || model === 'patchy' && ++patchy % 3) {
        res.writeHead(500, { 'Content-Type': 'application/json' }).end(JSON.stringify({ error: { message: 'out of memory ' + evil, type: 'server_error', code: evil } }));
        return;
      }
      if (req.url.endsWith('/messages')) {
        res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({
          id: 'msg_1', type: 'message', role: 'assistant', model, content: [{ type: 'text', text: 'Hello.' }], stop_reason: 'end_turn', usage: { input_tokens: 20, output_tokens: 3, cache_read_input_tokens: 100 },
        }));
        return;
      }
      const usage = { prompt_tokens: 100 + long, completion_tokens: 40 + (long % 90), total_tokens: 140 + long + (long % 90) };
      if (stream) {
        const chunk = (delta, more = {}) => res.write('data: ' + JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', created: 1, model, choices: [{ index: 0, delta, finish_reason: null }], ...more }) + '\n\n');
        setTimeout(() => {
          res.writeHead(200, { 'Content-Type': 'text/event-stream' });
          chunk({ role: 'assistant', content: 'Hello.' });
          chunk({}, { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }], usage });
          res.end('data: [DONE]\n\n');
        }, 20 + (long % 60));
        return;
      }
      setTimeout(() => res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({
        id: 'c1', object: 'chat.completion', created: 1, model, usage,
        choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'Hello.' } }],
      })), 20);
    });
  });
  return { port: await listen(server), close: () => new Promise((done) => { server.closeAllConnections(); server.close(done); }) };
}

// startProvider plays an identity provider at which a person, ann by default, signs in at once.
async function startProvider() {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const text = (v) => Buffer.from(JSON.stringify(v)).toString('base64url');
  const jwt = (claims) => {
    const body = text({ alg: 'EdDSA', kid: 'k' }) + '.' + text(claims);
    return body + '.' + signBytes(null, Buffer.from(body), privateKey).toString('base64url');
  };
  const p = { sub: 'ann', email: 'ann@example.com' };
  const grants = new Map();
  const server = createServer((req, res) => {
    const url = new URL(req.url, p.url);
    const json = (v) => res.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(v));
    if (url.pathname === '/.well-known/openid-configuration') {
      json({ issuer: p.url, authorization_endpoint: p.url + '/authorize', token_endpoint: p.url + '/token', jwks_uri: p.url + '/keys', id_token_signing_alg_values_supported: ['EdDSA'] });
    } else if (url.pathname === '/keys') {
      json({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'k', use: 'sig', alg: 'EdDSA' }] });
    } else if (url.pathname === '/authorize') {
      const code = randomUUID();
      grants.set(code, url.searchParams.get('nonce'));
      const answer = new URLSearchParams({ code, state: url.searchParams.get('state'), iss: p.url });
      res.writeHead(302, { Location: url.searchParams.get('redirect_uri') + '?' + answer }).end();
    } else {
      let form = '';
      req.on('data', (d) => { form += d; });
      req.on('end', () => {
        const nonce = grants.get(new URLSearchParams(form).get('code'));
        const claims = { iss: p.url, sub: p.sub, exp: Math.floor(Date.now() / 1000) + 600 };
        json({
          token_type: 'Bearer', expires_in: 600, refresh_token: randomUUID(), access_token: jwt({ ...claims, aud: 'gateway', groups: ['ops'], email: p.email }),
          id_token: jwt({ ...claims, aud: 'isogloss', nonce, email: p.email, email_verified: true }),
        });
      });
    }
  });
  p.url = 'http://127.0.0.1:' + (await listen(server));
  p.close = () => new Promise((done) => { server.closeAllConnections(); server.close(done); });
  return p;
}

// Gateway is one process of the built binary.
export class Gateway {
  // start runs a gateway. With rows, its ledger has that many requests before it starts.
  static async start({ store = true, rows = 0 } = {}) {
    const g = new Gateway();
    g.dir = await mkdtemp(join(tmpdir(), 'isogloss-console-'));
    g.upstream = await startUpstream();
    g.provider = await startProvider();
    g.port = await freePort();
    g.adminPort = await freePort();
    g.url = 'http://127.0.0.1:' + g.port;
    g.admin = 'http://127.0.0.1:' + g.adminPort;
    g.config = join(g.dir, 'isogloss.yaml');
    const provider = (port) => `{ protocol: openai-chat, base_url: "http://127.0.0.1:${port}/v1", api_key: sk-scripted }`;
    g.text = `listen: 127.0.0.1:${g.port}
admin: { listen: 127.0.0.1:${g.adminPort} }
data: ${join(g.dir, 'data')}
${store ? 'store: sqlite\ntags: { users: plain }' : ''}
providers:
  up: ${provider(g.upstream.port)}
  spare: ${provider(g.upstream.port)}
  down: ${provider(await freePort())}
  other: { protocol: anthropic, base_url: "http://127.0.0.1:${g.upstream.port}", api_key: sk-scripted }
models:
  fast: { targets: [up/fast-1] }
  smart: { targets: [up/smart-2] }
  careful: { targets: [down/careful, spare/careful] }
  broken: { targets: [up/broken] }
  translated: { targets: [other/translated] }
  shared: { balance: weight, targets: [{ target: up/shared, weight: 3 }, { target: other/shared, weight: 1 }] }
  "${evil}": { targets: [up/odd] }
prices:
  models:
    "up/fast-1": { input: 0.20, output: 0.80 }
    "up/smart-2": { input: 3, output: 15 }
    "up/shared": { input: 2, output: 8 }
    "spare/*": { input: 1, output: 4 }
    "other/translated": { input: 3, output: 15, cache_read: 0.30 }
    "down/*": { input: 1, output: 4 }
${store ? `identity:
  issuers:
    - issuer: ${g.provider.url}
      audiences: [gateway]
      name: email
      rules: [{ when: { groups: ops }, org: acme, role: key-manager, budget: '5', window: 720h, own_keys: { max: 3, expires: 720h, models: [fast, smart] } }]
  sign_in: { url: "${g.url}", admin: "${g.admin}", client: isogloss, secret: a-secret-of-the-gateway }
` : ''}`;
    await writeFile(g.config, g.text);
    if (rows) {
      await g.createKey('--role', 'owner', '--name', 'first'); // makes the store and the pepper
      const file = join(g.dir, 'data', 'isogloss.db');
      if (process.env.SEEDED) await copyFile(process.env.SEEDED, file); // of an earlier run, to save minutes
      else await scale('seed', '-store', 'sqlite:' + file, '-rows', String(rows));
    }
    await g.serve();
    return g;
  }

  // beside starts another node with the store of this one. change changes its configuration.
  async beside(name, change = (text) => text) {
    const g = Object.assign(new Gateway(), { upstream: this.upstream, provider: this.provider, dir: this.dir, keys: this.keys, guest: true });
    g.port = await freePort();
    g.adminPort = await freePort();
    g.url = 'http://127.0.0.1:' + g.port;
    g.admin = 'http://127.0.0.1:' + g.adminPort;
    g.config = join(this.dir, name + '.yaml');
    const pepper = (await readFile(join(this.dir, 'data', 'pepper'), 'utf8')).trim();
    g.text = change(this.text.replaceAll(this.url, g.url).replaceAll(this.admin, g.admin).replace('listen: 127.0.0.1:' + this.port, 'listen: 127.0.0.1:' + g.port).replace('listen: 127.0.0.1:' + this.adminPort, 'listen: 127.0.0.1:' + g.adminPort)
      .replace(/^data: .*$/m, `node: ${name}\ndata: ${join(this.dir, name)}`).replace('store: sqlite', `store: { url: "sqlite:${join(this.dir, 'data', 'isogloss.db')}", peppers: ["${pepper}"] }`));
    await g.serve();
    return g;
  }

  async serve() {
    const g = this;
    await writeFile(g.config, g.text);
    g.process = spawn(bin, ['serve', '-c', g.config], { cwd: g.dir, stdio: ['ignore', 'pipe', 'pipe'] });
    g.log = '';
    for (const out of [g.process.stdout, g.process.stderr]) out.on('data', (d) => { g.log += d; });
    g.ended = new Promise((done) => g.process.on('exit', done));
    await until(() => 'the gateway serves\n' + g.log, async () => (await fetch(g.admin + '/console/state.json')).ok);
  }

  async stop() {
    this.process.kill('SIGTERM');
    const timer = setTimeout(() => this.process.kill('SIGKILL'), patience);
    await this.ended;
    clearTimeout(timer);
    if (this.guest) return;
    await this.upstream.close();
    await this.provider.close();
    await rm(this.dir, { recursive: true, force: true });
  }

  // createKey makes a key with the command line and returns its text.
  async createKey(...args) {
    const { stdout } = await run(bin, ['keys', 'create', '-c', this.config, '--json', ...args], { cwd: this.dir });
    const made = JSON.parse(stdout);
    return made.text ?? made.key;
  }

  // capture runs isogloss capture until the returned function is called.
  async capture(...args) {
    const child = spawn(bin, ['capture', '-c', this.config, '--out', join(this.dir, 'captured'), '--count', '1000', ...args], { cwd: this.dir, stdio: ['ignore', 'ignore', 'pipe'] });
    const ended = new Promise((done) => child.on('exit', done));
    let text = '';
    child.stderr.on('data', (d) => { text += d; });
    await until(() => 'the capture is attached: ' + text, async () => text.includes('attached'));
    return () => { child.kill('SIGINT'); return ended; };
  }

  // command runs the binary with a text as its input.
  command(args, input) {
    const running = run(bin, args, { cwd: this.dir });
    running.child.stdin.end(input);
    return running;
  }

  api(key, path, init = {}) {
    return fetch(this.admin + '/api/v1' + path, { ...init, headers: { Authorization: 'Bearer ' + key, ...(init.body ? { 'Content-Type': 'application/json' } : {}) } });
  }

  async send(key, model, text = 'Hello', { stream, tags } = {}) {
    return (await this.request(key, { model, stream, messages: [{ role: 'user', content: text }] }, tags && { 'Isogloss-Tags': tags })).status;
  }

  // request sends a body of Chat Completions and returns the status and the id of the request.
  async request(key, body, headers = {}) {
    const response = await fetch(this.url + '/v1/chat/completions', {
      method: 'POST', headers: { Authorization: 'Bearer ' + key, 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(body),
    });
    await response.text();
    return { status: response.status, id: response.headers.get('x-request-id') };
  }

  // fill makes teams, keys and traffic, and waits until the ledger has all of it.
  async fill() {
    this.keys = { owner: await this.createKey('--role', 'owner', '--name', 'root') };
    for (const role of ['admin', 'auditor', 'billing', 'key-manager']) this.keys[role] = await this.createKey('--role', role, '--name', 'the ' + role);
    const owner = this.keys.owner;
    await this.api(owner, '/orgs', { method: 'POST', body: JSON.stringify({ id: 'acme', name: 'Acme Inc.' }) });
    await this.api(owner, '/orgs/acme/teams', { method: 'POST', body: JSON.stringify({ id: 'search', name: 'Search', limits: { budget: '20', window_seconds: 2592000, requests_per_minute: 600 } }) });
    for (const role of ['auditor', 'billing', 'key-manager']) this.keys[role + ' of acme'] = await this.createKey('--role', role, '--name', 'the ' + role + ' of acme', '--org', 'acme');
    this.clients = [
      await this.createKey('--name', 'ci', '--models', '*', '--org', 'acme', '--team', 'search', '--budget', '0.05', '--window', '30d'),
      await this.createKey('--name', 'notebooks', '--models', 'fast,smart', '--org', 'acme'),
      await this.createKey('--name', evil, '--models', '*'),
      await this.createKey('--name', 'translator', '--models', '*', '--org', 'acme'),
    ];
    const [ci, notebooks, odd] = this.clients;
    const recorded = async () => (await (await this.api(owner, '/usage')).json()).sums[0].requests;
    const had = await recorded();
    await until('the new keys are known', async () => (await this.send(odd, 'fast')) === 200);
    let sent = 1;
    for (let i = 0; i < 12; i++) {
      for (const [key, model] of [[ci, 'fast'], [notebooks, 'smart'], [ci, 'careful'], [odd, evil]]) {
        await this.send(key, model, 'word '.repeat(i * 7));
        sent++;
      }
    }
    for (let i = 0; i < 6; i++) {
      await this.send(ci, 'fast', 'word '.repeat(i), { stream: true, tags: 'feature=summaries' });
      sent++;
    }
    for (let i = 0; i < 3; i++) {
      await this.send(odd, 'broken');
      sent++;
    }
    await until('the ledger has ' + sent + ' requests', async () => await recorded() >= had + sent);
    if (!had) await this.age();
  }

  // age copies the sums of this hour to earlier hours, so that charts have something to show.
  async age() {
    const file = join(this.dir, 'data', 'isogloss.db');
    const script = `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=10)
columns = [r[1] for r in db.execute("PRAGMA table_info(hours)")]
rows = db.execute("SELECT " + ",".join(columns) + " FROM hours").fetchall()
counts = [i for i, c in enumerate(columns) if c in ("requests", "input", "output", "cost")]
for back in range(1, 24 * 21):
    for n, row in enumerate(rows):
        factor = 1 + (back * 7 + n * 13) % 11
        copy = [v * factor if i in counts and v is not None else v for i, v in enumerate(row)]
        copy[columns.index("hour")] -= back
        db.execute("INSERT OR IGNORE INTO hours VALUES (" + ",".join("?" * len(columns)) + ")", copy)
sums = ",".join("sum(" + r[1] + ")" for r in db.execute("PRAGMA table_info(key_days)").fetchall()[4:])
for table, key, more in (("model_hours", "hour,org,model,target", ",9223372036854775807,9223372036854775807"), ("key_days", "hour/24,org,team,key_id", ""), ("days", "hour/24,org,team,key_id,model,target", ""), ("model_days", "hour/24,org,model,target", "")):
    db.execute("DELETE FROM " + table)
    db.execute("INSERT INTO " + table + " SELECT " + key + "," + sums + more + " FROM hours GROUP BY " + key)
db.commit()
`;
    await run('python3', ['-c', script, file]);
  }
}

const installed = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

// openBrowser starts the Chromium of the system, which setup.sh installs.
export async function openBrowser() {
  const executablePath = process.env.CHROMIUM ?? installed.find((path) => existsSync(path));
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
}
