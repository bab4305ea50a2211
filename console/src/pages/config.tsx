import { useState } from 'react';
import { useQueryClient } from '@tanstack/react-query';
import { ApiError, send, type Schemas } from '../api/client';
import { useChange, useGet } from '../api/hooks';
import { setParams, useLocation, useParam } from '../router';
import { useCan } from '../session';
import { ago, count } from '../ui/format';
import { Badge, Button, Card, Copy, Empty, Facts, Failure, Mistakes, PageHead, Select, Show, Table, Text, Time } from '../ui/parts';

type Config = Schemas['Configuration'];
type Node = Schemas['NodeView'];

export function ConfigPage() {
  const can = useCan();
  const client = useQueryClient();
  const config = useGet('/api/v1/config', {}, { every: 10_000 });
  const reload = useChange(() => send('post', '/api/v1/config/reload', {}));
  const run = () => reload.mutate(undefined, { onError: () => void client.invalidateQueries({ queryKey: ['/api/v1/config'] }) });
  const shownAlready = reload.error instanceof ApiError && reload.error.problem.code === 'config_mistakes';
  return (
    <>
      <PageHead title="Configuration">
        {can('reload-config') && <Button kind="primary" disabled={reload.isPending} onClick={run}>{reload.isPending ? 'Reloading…' : 'Reload the file'}</Button>}
      </PageHead>
      {reload.error && !(shownAlready && config.data?.refused) ? <Failure error={reload.error} /> : null}
      {reload.isSuccess && !config.data?.refused && <p className="notice good" role="status">The file was read again and is in effect.</p>}
      {config.data?.refused && (
        <div className="notice bad" role="alert">
          <p>The file was refused at <Time at={config.data.refused.at} />. The configuration of <Time at={config.data.loaded} /> stays in effect. Fix the file: it is read again when it changes.</p>
          <Mistakes list={config.data.refused.errors} />
        </div>
      )}
      {can('list-nodes') && <Nodes />}
      <Show query={config} what="the configuration">
        {(c) => (
          <>
            <Settings config={c} call={config.call} />
            <Card title="In effect on this node" calls={[config.call]} wide actions={<Copy text={c.text} />}>
              <p className="hint">With all defaults, also those of presets, and values of variables, without secrets. One setting per line; the lines are not those of the file.</p>
              <div className="code" role="region" aria-label="Configuration" tabIndex={0}>
                <ul>{c.text.trimEnd().split('\n').map((line, i) => <li key={i}><code>{line || ' '}</code></li>)}</ul>
              </div>
            </Card>
          </>
        )}
      </Show>
    </>
  );
}

type Setting = Config['settings'][number];

const origins = { all: 'everything', file: 'the file', outside: 'environment and flags', default: 'defaults' };
type Origin = keyof typeof origins;

const originOf = (s: Setting): Origin => (s.source ? 'outside' : s.line ? 'file' : 'default');

// Settings lists the settings and says where each comes from.
function Settings({ config: c, call }: { config: Config; call: ReturnType<typeof useGet>['call'] }) {
  const [from, setFrom] = useParam('from', 'all');
  const [text, setText] = useState('');
  const wanted = text.trim().toLowerCase();
  const rows = c.settings.filter((s) => (from === 'all' || originOf(s) === from) && (s.key + ' ' + s.value).toLowerCase().includes(wanted));
  const number = (o: Origin) => c.settings.filter((s) => originOf(s) === o).length;
  return (
    <Card title="Settings" calls={[call]} wide>
      <Facts rows={[
        ['File', c.path ? <code key="p" className="break">{c.path}</code> : 'none: all settings have their defaults'],
        ['Loaded', <Time key="t" at={c.loaded} exact />],
        ['Settings', count(number('file')) + ' from the file, ' + count(number('outside')) + ' from environment and flags, ' + count(number('default')) + ' defaults'],
      ]} />
      <div className="filters" role="search" aria-label="Filter settings">
        <Text label="Setting or value" value={text} set={setText} placeholder="any" />
        <Select label="From" value={from} set={setFrom} choices={Object.entries(origins).map(([value, label]) => ({ value, label }))} />
      </div>
      {rows.length === 0 ? <Empty title="No setting matches the filters" /> : (
        <Table label="Settings" id={(s) => s.key} rows={rows} columns={[
          { head: 'Setting', main: true, cell: (s) => <code className="break">{s.key}</code> },
          { head: 'Value', cell: (s) => <code className="break">{s.value}</code> },
          { head: 'From', cell: (s) => (s.source ? <Badge tone="warn">{s.source}</Badge> : s.line ? <Badge tone="good">{'line ' + s.line}</Badge> : <span className="hint">default</span>) },
        ]} />
      )}
      {c.settings_cut && <p className="hint" role="status">Only the first {count(c.settings.length)} settings are listed.</p>}
      <p className="hint">Secrets are hidden. Defaults that are empty are not listed.</p>
    </Card>
  );
}

// Nodes lists the gateways that share the store.
function Nodes() {
  const can = useCan();
  const { query } = useLocation();
  const nodes = useGet('/api/v1/nodes', {}, { every: 10_000 });
  const chosen = nodes.data?.nodes.find((n) => n.id === query.get('node'));
  return (
    <>
      <Card title="Nodes" calls={[nodes.call]} wide>
        <Show query={nodes} what="the nodes">
          {(list) => (
            <>
              {list.missing && <p className="notice bad" role="status">{list.missing}.</p>}
              <Table label="Nodes" id={(n) => n.id} rows={list.nodes} columns={[
                { head: 'Node', main: true, cell: (n) => <>{n.name} {n.this && <span className="hint">this node</span>}</> },
                { head: 'State', cell: (n) => <><Badge>{n.state}</Badge>{n.state !== 'running' && <div className="hint">{n.stopped ? <Time at={n.stopped} /> : <>last seen <Time at={n.seen} /></>}</div>}</> },
                { head: 'Version', cell: (n) => n.version },
                { head: 'Started', cell: (n) => <Time at={n.started} /> },
                { head: 'Configuration', cell: (n) => <NodeConfig node={n} chosen={n.id === chosen?.id} can={can('compare-node')} /> },
                { head: 'Open requests', number: true, cell: (n) => (n.state === 'running' ? count(n.open) : '–') },
                { head: 'Not in the ledger', number: true, cell: (n) => <>{count(n.ledger.rows)}{n.ledger.rows > 0 && <div className="hint">oldest {ago(n.ledger.oldest_seconds)}</div>}</> },
              ]} />
              {list.nodes.length === 1 && <p className="hint">Other gateways appear here if they have the same <code>store</code>.</p>}
            </>
          )}
        </Show>
      </Card>
      {chosen && can('compare-node') && <Differences node={chosen} />}
    </>
  );
}

function NodeConfig({ node: n, chosen, can }: { node: Node; chosen: boolean; can: boolean }) {
  return (
    <>
      <code title={n.config}>{n.config.slice(0, 8)}</code> <span className="hint">{n.this ? '' : n.same_config ? 'as here' : 'differs'}</span>
      <div className="hint">loaded <Time at={n.loaded} /></div>
      {n.refused && <div className="hint bad-text">refused a change at <Time at={n.refused} /></div>}
      {!n.same_config && can && <Button aria-expanded={chosen} aria-label={(chosen ? 'Hide' : 'Show') + ' differences of ' + n.name} onClick={() => setParams({ node: chosen ? '' : n.id })}>{chosen ? 'Hide differences' : 'Show differences'}</Button>}
    </>
  );
}

// Differences says how the configuration of another node differs from that of this one.
function Differences({ node }: { node: Node }) {
  const compared = useGet('/api/v1/nodes/{node}/config', { path: { node: node.id } });
  return (
    <Card title={'Differences between this node and ' + node.name} calls={[compared.call]} wide>
      <Show query={compared} what="its configuration">
        {({ differences }) => differences.length === 0 ? <Empty title="The configurations are the same" /> : (
          <Table label="Differences" id={(d) => d.setting} rows={differences} columns={[
            { head: 'Setting', main: true, cell: (d) => d.setting },
            { head: 'Here', cell: (d) => (d.here ? <code className="break">{d.here}</code> : <span className="hint">only on {node.name}</span>) },
            { head: 'On ' + node.name, cell: (d) => (d.there ? <code className="break">{d.there}</code> : <span className="hint">only here</span>) },
          ]} />
        )}
      </Show>
      <p className="hint">Secrets, such as keys of providers, are not compared.</p>
    </Card>
  );
}
