package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/isogloss-gateway/isogloss/internal/test/testrig"
)

// nginxConf is a plain reverse proxy for streams: kept connections on both sides,
// no buffering of answers, an access log.
const nginxConf = `%[1]s
worker_processes %[2]d;
worker_rlimit_nofile %[3]d;
daemon off;
pid %[4]s/nginx.pid;
error_log %[4]s/nginx-error.log;
events { worker_connections %[3]d; }
http {
  access_log %[4]s/nginx-access.log;
  client_body_temp_path %[4]s/body; proxy_temp_path %[4]s/proxy; fastcgi_temp_path %[4]s/fcgi;
  uwsgi_temp_path %[4]s/uwsgi; scgi_temp_path %[4]s/scgi;
  client_max_body_size 64m; client_body_buffer_size 512k;
  keepalive_requests 100000000;
  upstream model { server %[5]s; keepalive 1024; keepalive_requests 100000000; }
  server {
    listen %[6]s;
    location / {
      proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_read_timeout 30m;
    }
  }
}
`

func (b *bench) startNginx(ctx context.Context, upstream string) *process {
	dir := testrig.Must(os.MkdirTemp(b.dir, "nginx"))
	addr := testrig.Must(testrig.Address())
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;" // the workers have to reach the folder
	}
	conf := filepath.Join(dir, "nginx.conf")
	connections := min(b.files, 20000) // nginx holds memory for each from the start
	text := fmt.Sprintf(nginxConf, user, runtime.NumCPU(), connections, dir, upstream, addr)
	testrig.NoError(os.WriteFile(conf, []byte(text), 0o600))
	return start(ctx, launch{name: "nginx", addr: addr, dir: dir, health: "http://" + addr + "/health", args: []string{"nginx", "-c", conf, "-e", filepath.Join(dir, "nginx-error.log")}})
}
