import { useModels } from '../api/hooks';
import { count } from '../ui/format';
import { Card, Empty, PageHead, Show, Table } from '../ui/parts';

// StorelessPage is the console of a gateway without a store: the models, and what is missing.
export function StorelessPage() {
  const models = useModels();
  return (
    <>
      <PageHead title="Models" />
      <div className="notice">
        <p><strong>This gateway has no store.</strong> Keys, exchanges, usage, budgets and the audit log are kept in one, so the console shows only models and translations here. Add this to the configuration and restart:</p>
        <pre>store: sqlite</pre>
        <p>Then create a key with <code>isogloss keys create --role owner --name me -c isogloss.yaml</code> and sign in here. Until then, <a href="/metrics">/metrics</a> has the numbers.</p>
      </div>
      <Card title="Models and targets" calls={[models.call]} wide>
        <Show query={models} what="models">
          {(list) => (list.models.length ? (
            <Table label="Models" id={(m) => m.model} rows={list.models} columns={[
              { head: 'Model', main: true, cell: (m) => m.model },
              { head: 'Targets', cell: (m) => <ul className="plain-list">{m.targets.map((t) => <li key={t.target + t.base_url}>{t.target} <span className="hint">{t.protocol}</span></li>)}</ul> },
              { head: 'Context', number: true, cell: (m) => (m.context_window ? count(m.context_window) : '–') },
              { head: 'Output limit', number: true, cell: (m) => (m.max_output_tokens ? count(m.max_output_tokens) : '–') },
            ]} />
          ) : (
            <Empty title="No model is known by name">
              {list.patterns?.length ? <p>Requests for {list.patterns.join(', ')} are passed on.</p> : <p>Add providers to the configuration: <code>isogloss init</code> writes one.</p>}
            </Empty>
          ))}
        </Show>
      </Card>
    </>
  );
}
