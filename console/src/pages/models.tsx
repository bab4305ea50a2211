import { useMutation } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { call, sendCall, type Schemas } from '../api/client';
import { useGet } from '../api/hooks';
import { go, Link, useParam } from '../router';
import { useCan } from '../session';
import { count, dollars } from '../ui/format';
import { Badge, Button, Card, Empty, Facts, Failure, Field, PageHead, Select, sentence, Show, Table, Text, Time } from '../ui/parts';
import { RouteGraph } from '../ui/route-graph';
import { isWorking, stateTone, TargetState, TargetTable } from '../ui/targets';

type Model = Schemas['ListedModel'];
type Target = Schemas['ListedTarget'];
type Explanation = Schemas['Explanation'];

const shown = 200; // rows of the list

// policies says how each balancing policy chooses.
const policies: Record<string, string> = {
  order: 'The targets are tried in this order. A later one gets a request only if those before it fail or are out of service.',
  weight: 'A target is chosen at random by weight. If it fails, another one follows.',
  'least-busy': 'Of two random targets, the one with fewer open requests for its weight is chosen. If it fails, another one follows.',
  fastest: 'Of two random targets, the one with the lower time to first token is chosen. If it fails, another one follows.',
  cache: 'The target that probably has the conversation in its prompt cache is chosen, unless it is too busy. If it fails, another one follows.',
};

const perMillion = (price: string) => '$' + Number((Number(price) * 1e6).toPrecision(6));
const priceText = (p: Model['price']) => (p ? perMillion(p.input) + ' / ' + perMillion(p.output) : '–');
const modelPath = (name: string) => '/console/models/' + encodeURIComponent(name);

export function ModelsPage() {
  const can = useCan();
  const models = useGet('/api/v1/models', {}, { every: 10_000 });
  const [filter, setFilter] = useState('');
  const [explain, setExplain] = useParam('explain');
  const found = (models.data?.models ?? []).filter((m) => (m.model + ' ' + m.targets.map((t) => t.target).join(' ')).toLowerCase().includes(filter.trim().toLowerCase()));
  return (
    <>
      <PageHead title="Models and targets">
        {can('explain') && <Button kind={explain ? 'plain' : 'primary'} aria-expanded={explain !== ''} onClick={() => setExplain(explain ? '' : '1')}>{explain ? 'Close the explanation' : 'Explain a request'}</Button>}
      </PageHead>
      {explain && can('explain') && <ExplainCard models={models.data?.models.map((m) => m.model) ?? []} />}
      <div className="filters" role="search" aria-label="Filter models"><Text label="Model or target" value={filter} set={setFilter} /></div>
      <Card title="Models" calls={[models.call]} wide>
        <Show query={models} what="models">
          {(list) => found.length > 0 ? (
            <>
              <Table label="Models" id={(m) => m.model} rows={found.slice(0, shown)} columns={[
                { head: 'Model', main: true, cell: (m) => <><Link to={modelPath(m.model)}>{m.model}</Link>{m.route !== m.model && <div className="hint">by {m.route}</div>}</> },
                { head: 'Policy', cell: (m) => m.balance },
                { head: 'Targets', cell: (m) => <Targets targets={m.targets} /> },
                { head: 'Open', number: true, cell: (m) => count(m.targets.reduce((n, t) => n + t.open, 0)) },
                { head: 'Price in / out', number: true, cell: (m) => <>{priceText(m.price)}{m.price && <div className="hint">per million tokens</div>}</> },
                { head: 'Context', number: true, cell: (m) => (m.context_window ? count(m.context_window) : '–') },
              ]} />
              {found.length > shown && <p className="hint" role="status">{count(found.length - shown)} more models are not shown. Write a part of the name above.</p>}
              {list.patterns?.length ? <p className="hint">Names of {list.patterns.join(', ')} are passed on; the provider has served no list of its models.</p> : null}
            </>
          ) : list.models.length > 0 ? (
            <Empty title="No model has this name" />
          ) : (
            <Empty title="No model is known by name">
              {list.patterns?.length ? <p>Requests for {list.patterns.join(', ')} are passed on.</p> : <p>Add providers and models to the configuration, then <Link to="/console/config">reload it</Link>.</p>}
            </Empty>
          )}
        </Show>
      </Card>
      {can('list-targets') && <AllTargets wanted={filter.trim().toLowerCase()} />}
    </>
  );
}

// AllTargets lists every target once, with its health and load.
function AllTargets({ wanted }: { wanted: string }) {
  const targets = useGet('/api/v1/targets', {}, { every: 10_000 });
  const found = (targets.data?.targets ?? []).filter((t) => (t.target + ' ' + t.models.join(' ')).toLowerCase().includes(wanted));
  return (
    <Card title="Targets" calls={[targets.call]} wide>
      <Show query={targets} what="targets">
        {(list) => list.targets.length > 0 && found.length === 0 ? <Empty title="No target has this name" /> : (
          <>
            <TargetTable targets={found.slice(0, shown)} />
            {found.length > shown && <p className="hint" role="status">{count(found.length - shown)} more targets are not shown. Write a part of the name above.</p>}
          </>
        )}
      </Show>
    </Card>
  );
}

const few = 4; // targets in a row of the list

function Targets({ targets }: { targets: Target[] }) {
  if (targets.length === 0) return <span className="hint">none at present</span>;
  return (
    <ul className="plain-list">
      {targets.slice(0, few).map((t, i) => <li key={i}>{t.target} {t.state !== 'ready' && <Badge tone={stateTone(t.state)}>{t.state}</Badge>}</li>)}
      {targets.length > few && <li className="hint">and {targets.length - few} more</li>}
    </ul>
  );
}

export function ModelPage({ id }: { id: string }) {
  const can = useCan();
  const name = decodeURIComponent(id);
  const models = useGet('/api/v1/models', {}, { every: 5_000 });
  return (
    <>
      <p className="back"><Link to="/console/models">← Models and targets</Link></p>
      <PageHead title={name} />
      <Show query={models} what="the model">
        {(list) => {
          const m = list.models.find((one) => one.model === name);
          if (!m) return <Empty title="No model has this name"><p>It may have been removed from the configuration. <Link to="/console/models">Show all models</Link>.</p></Empty>;
          return <><Route model={m} call={models.call} />{can('explain') && <ExplainCard models={[name]} model={name} />}</>;
        }}
      </Show>
    </>
  );
}

function Route({ model: m, call: from }: { model: Model; call: ReturnType<typeof call> }) {
  const down = m.targets.filter((t) => !isWorking(t.state));
  const weights = m.targets.reduce((n, t) => n + t.weight, 0);
  return (
    <>
      {m.targets.length > 0 && down.length === m.targets.length && <p className="notice bad" role="status">No target gets requests now. A request is still tried on them, because there is no other.</p>}
      <Card title="Route" calls={[from]} wide>
        <Facts rows={[
          ['Policy', <span key="p"><strong>{m.balance}</strong>. {policies[m.balance]}</span>],
          ['Configured as', m.route !== m.model && m.route],
          ['Owned by', m.owned_by],
          ['Context window', m.context_window && count(m.context_window) + ' tokens'],
          ['Output limit', m.max_output_tokens && count(m.max_output_tokens) + ' tokens'],
          ['Can', m.capabilities?.join(', ')],
          ['Price', m.price && priceText(m.price) + ' per million tokens, in and out, at the first target'],
          ['Vendor ends it', m.shutdown_date],
        ]} />
        {m.targets.length === 0 ? <Empty title="The model has no target at present"><p>Its targets are discovered workers, and none is known.</p></Empty> : (
          <>
            <RouteGraph model={m} />
            <Table label="Targets" id={(_, i) => String(i)} rows={m.targets.map((t, i) => ({ ...t, i }))} columns={[
              { head: 'Target', main: true, cell: (t) => <>{t.target}<div className="hint">{t.protocol} at {t.base_url}</div></> },
              m.balance === 'order'
                ? { head: 'Order', cell: (t) => (t.i === 0 ? 'first' : 'fallback ' + t.i) }
                : { head: 'Weight', number: true, cell: (t) => t.weight + (m.balance === 'weight' ? ' (' + Math.round((t.weight / weights) * 100) + ' %)' : '') },
              { head: 'State', cell: (t) => <TargetState target={t} /> },
              { head: 'Open', number: true, cell: (t) => count(t.open) },
              { head: 'First token', number: true, cell: (t) => t.first_token?.replace('ms', ' ms') ?? '–' },
              { head: 'Last error', cell: (t) => (t.last_error ? <>{t.last_error}<div className="hint"><Time at={t.last_error_at} /></div></> : '–') },
            ]} />
          </>
        )}
      </Card>
    </>
  );
}

const dialects = ['openai-chat', 'openai-responses', 'anthropic', 'gemini', 'converse'];

// ExplainCard says what would happen to a pasted request. Nothing is sent to a provider.
function ExplainCard({ models, model: initial = '' }: { models: string[]; model?: string }) {
  const [dialect, setDialect] = useState('openai-chat');
  const [model, setModel] = useState(initial);
  const [request, setRequest] = useState('');
  const explain = useMutation({ mutationFn: (c: ReturnType<typeof call>) => sendCall(c) as Promise<Explanation> });
  const run = (e: FormEvent) => {
    e.preventDefault();
    explain.mutate(call('post', '/api/v1/explain', { body: { dialect, ...(model && { model }), ...(request.trim() && { request }) } }));
  };
  return (
    <Card title="Explain a request" calls={explain.variables && [explain.variables]} wide>
      <form onSubmit={run}>
        <div className="filters">
          <Select label="Dialect of the client" value={dialect} set={setDialect} choices={dialects} />
          <Text label="Model" value={model} set={setModel} list={models} required={!request.trim()} />
        </div>
        <Field label="Request body" hint="Paste JSON as the client sends it. A model that it names comes before the one above. Nothing is sent to a provider, and nothing is stored.">
          {(id, hint) => <textarea id={id} aria-describedby={hint} rows={6} spellCheck={false} value={request} onChange={(e) => setRequest(e.target.value)} />}
        </Field>
        <div className="form-actions"><button className="button primary" disabled={explain.isPending}>{explain.isPending ? 'Explaining…' : 'Explain'}</button></div>
      </form>
      <div aria-live="polite">
        {explain.error ? <Failure error={explain.error} /> : explain.data && <Explained explanation={explain.data} />}
      </div>
    </Card>
  );
}

function Explained({ explanation: e }: { explanation: Explanation }) {
  const first = e.targets.find((t) => t.place && !t.refusal);
  return (
    <>
      <p>
        {first
          ? <>A request for <strong>{e.model}</strong> goes to <strong>{first.target}</strong>{e.targets.some((t) => t.place && t !== first && !t.refusal) && ', and to the others below if it fails'}.</>
          : <>No target can serve a request for <strong>{e.model}</strong>.</>}
        {' '}The policy is {e.balance}{e.route !== e.model && <>, the route {e.route}</>}{['order', 'cache'].includes(e.balance) ? '' : ', so the next request may have another order'}.
      </p>
      {e.params !== undefined && <p>The configuration sets parameters: <code className="break">{JSON.stringify(e.params)}</code></p>}
      <ol className="explained" aria-label="Explained targets">{e.targets.map((t, i) => <li key={i}><ExplainedTarget target={t} explanation={e} /></li>)}</ol>
      {e.no_output_limit && <p className="hint">The request sets no output limit, so a response can have more tokens and cost more than is reserved at first.</p>}
    </>
  );
}

// why says in words why a target is at its place.
function why(t: Explanation['targets'][number]): string {
  if (!t.place) return 'not tried: ' + (t.why ?? 'it cannot serve such requests');
  const place = t.place === 1 ? 'tried first' : 'tried as number ' + t.place + ', if those before it fail';
  return t.why ? place + '. Not earlier: ' + t.why : place;
}

function ExplainedTarget({ target: t, explanation: e }: { target: Explanation['targets'][number]; explanation: Explanation }) {
  const asked = e.max_prompt_tokens !== undefined;
  return (
    <>
      <h3>{t.target} <Badge tone={stateTone(t.state)}>{t.state}</Badge></h3>
      <Facts rows={[
        ['Order', sentence(why(t))],
        ['State', (t.until || t.last_error) && <span key="s">{t.until && <>{t.state} until <Time at={t.until} />. </>}{t.last_error && <>Last error: {t.last_error}, <Time at={t.last_error_at} />.</>}</span>],
        ['Translation', t.refusal ? <span key="r" className="bad-text">Cannot serve this request: {t.refusal}</span>
          : t.lane === 'verbatim' ? 'None: ' + t.protocol + ' is the client’s own dialect.'
            : 'To ' + t.protocol + '.'],
        ['Lost', asked && !t.refusal && (t.losses?.length
          ? <ul key="l" className="plain-list">{t.losses.map((l, i) => <li key={i}><code>{l.path}</code> {l.verdict}: {l.note} <span className="hint">{l.code}</span></li>)}</ul>
          : 'Nothing of the request.')],
        ['Could cost', asked && !t.refusal && (t.max_cost
          ? <>up to {dollars(t.max_cost)} <span className="hint">for {count(e.max_prompt_tokens ?? 0)} prompt and {count(e.max_output_tokens ?? 0)} output tokens</span></>
          : <>not known <span className="hint">the target has no price; write one under prices in the configuration</span></>)],
      ]} />
    </>
  );
}

export const openExplain = () => go('/console/models?explain=1');
export const openModel = (name: string) => go(modelPath(name));
