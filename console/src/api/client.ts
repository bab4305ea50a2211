// The client of the admin API. Its types are generated from the served OpenAPI document.
import type { components, paths } from './schema';

export type Schemas = components['schemas'];
export type Problem = Schemas['Problem'];

type Method = 'get' | 'post' | 'put' | 'patch';
type Operation<P extends keyof paths, M extends Method> = NonNullable<paths[P][M]>;
type Json<T> = T extends { content: { 'application/json': infer B } } ? B : never;
type Result<O> = O extends { responses: infer R } ? Json<R[keyof R & (200 | 201)]> : never;
type Query<O> = O extends { parameters: { query?: infer Q } } ? Q : never;
type PathParams<O> = O extends { parameters: { path: infer X } } ? { path: X } : { path?: undefined };
type Body<O> = O extends { requestBody: infer B } ? { body: Json<B> } : { body?: undefined };
type Input<O> = PathParams<O> & Body<O> & { query?: Query<O> };

// Call is a request as it is sent. The pages show it beside its result.
export type Call = { method: string; path: string; body?: unknown };

// ApiError is a response with an error status, or none at all (status 0).
export class ApiError extends Error {
  constructor(readonly status: number, readonly problem: Partial<Problem>) {
    super(problem.detail ?? 'the gateway does not respond');
  }
}

// A key is here only while the gateway cannot begin a session, because its store is away. A reload forgets it.
let key = '';
export const forgetKey = () => { key = ''; };
export const hasKey = () => key !== '';

// signIn trades a key for a session, whose cookie no script can read. While the store is away it keeps the key.
export async function signIn(text: string): Promise<void> {
  const response = await fetch('/api/v1/session', { method: 'POST', headers: { Authorization: 'Bearer ' + text } }).catch(() => {
    throw new ApiError(0, { detail: 'the gateway does not respond; is it running?' });
  });
  const body = await response.text(); // an unread body keeps the request open
  if (response.ok) return;
  if (response.status !== 503) throw new ApiError(response.status, problemOf(body) ?? { detail: response.statusText });
  key = text;
}

function search(query: object | undefined): string {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== '') q.set(name, Array.isArray(value) ? value.join(',') : String(value));
  }
  const text = q.toString().replaceAll('%2C', ',').replaceAll('%3A', ':');
  return text && '?' + text;
}

// call returns the request of an operation.
export function call<P extends keyof paths, M extends Method>(method: M, path: P, input: Input<Operation<P, M>>): Call {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent((input.path as Record<string, string> | undefined)?.[name] ?? ''));
  return { method: method.toUpperCase(), path: filled + search(input.query as object | undefined), body: input.body };
}

// send sends an operation and returns its result.
export async function send<P extends keyof paths, M extends Method>(method: M, path: P, input: Input<Operation<P, M>>, signal?: AbortSignal): Promise<Result<Operation<P, M>>> {
  return sendCall(call(method, path, input), signal) as Promise<Result<Operation<P, M>>>;
}

// fetchCall sends a call and returns the response, whatever its status.
export async function fetchCall(c: Call, signal?: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = {};
  if (key) headers.Authorization = 'Bearer ' + key;
  if (c.body !== undefined) headers['Content-Type'] = 'application/json';
  try {
    return await fetch(c.path, { method: c.method, headers, body: c.body === undefined ? undefined : JSON.stringify(c.body), signal });
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new ApiError(0, { detail: 'the gateway does not respond; is it running?' });
  }
}

export async function sendCall(c: Call, signal?: AbortSignal): Promise<unknown> {
  const response = await fetchCall(c, signal);
  const text = await response.text();
  if (!response.ok) {
    throw new ApiError(response.status, problemOf(text) ?? { detail: text.trim() || response.statusText });
  }
  return text ? JSON.parse(text) : undefined;
}

function problemOf(text: string): Partial<Problem> | undefined {
  try {
    return JSON.parse(text) as Problem;
  } catch {
    return undefined;
  }
}

// State is what the gateway says before a sign-in.
export type State = { version: string; store: boolean; sign_in: boolean; session: boolean };

export const loadState = () => sendCall({ method: 'GET', path: '/console/state.json' }) as Promise<State>;

// ModelList is the list of models on the admin port, which needs no store.
export type ModelList = Schemas['Listing'];

// curl returns the command line of a call.
export function curl(c: Call): string {
  const parts = ['curl'];
  if (c.method !== 'GET') parts.push('-X ' + c.method);
  parts.push('-H "Authorization: Bearer $KEY"');
  if (c.body !== undefined) parts.push("-H 'Content-Type: application/json'", "-d '" + JSON.stringify(c.body).replaceAll("'", "'\\''") + "'");
  parts.push("'" + location.origin + c.path + "'");
  return parts.join(' ');
}
