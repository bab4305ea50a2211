import { send } from '../api/client';
import { useChange, useGet } from '../api/hooks';
import { useCan } from '../session';
import { Button, Card, Copy, Facts, Failure, PageHead, Show, Time } from '../ui/parts';

export function ConfigPage() {
  const can = useCan();
  const config = useGet('/api/v1/config', {});
  const reload = useChange(() => send('post', '/api/v1/config/reload', {}));
  return (
    <>
      <PageHead title="Configuration">
        {can('reload-config') && <Button kind="primary" disabled={reload.isPending} onClick={() => reload.mutate(undefined)}>{reload.isPending ? 'Reloading…' : 'Reload the file'}</Button>}
      </PageHead>
      {reload.error ? <Failure error={reload.error} /> : null}
      {reload.isSuccess && <p className="notice good" role="status">The file was read again and is in effect.</p>}
      <Show query={config} what="the configuration">
        {(c) => (
          <Card title="In effect on this node" calls={[config.call]} wide actions={<Copy text={c.text} />}>
            <Facts rows={[['File', c.path ? <code key="p">{c.path}</code> : 'none: all settings have their defaults'], ['Loaded', <Time key="t" at={c.loaded} exact />]]} />
            <p className="hint">With all defaults, without secrets. One setting per line; the lines are not those of the file.</p>
            <div className="code" role="region" aria-label="Configuration" tabIndex={0}>
              <ul>{c.text.trimEnd().split('\n').map((line, i) => <li key={i}><code>{line || ' '}</code></li>)}</ul>
            </div>
          </Card>
        )}
      </Show>
    </>
  );
}
