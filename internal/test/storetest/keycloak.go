package storetest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// KeycloakPassword is the password of the user "admin" of a Keycloak.
const KeycloakPassword = "keycloak-of-a-test" //nolint:gosec // it protects nothing

// Keycloak runs a Keycloak from a folder that keycloak.sh has filled. Its data are in memory.
func Keycloak(t testing.TB, folder string) *Server {
	t.Helper()
	homes, err := filepath.Glob(filepath.Join(folder, "keycloak-*"))
	if err != nil || len(homes) == 0 {
		t.Fatalf("there is no Keycloak in %s; run make identity, which installs it (%v)", folder, err)
	}
	return start(t, kind{
		name: "keycloak", slow: true,
		command: func(s *Server) *exec.Cmd {
			cmd := exec.Command(filepath.Join(homes[0], "bin", "kc.sh"), "start-dev", "--db=dev-mem", "--http-host=127.0.0.1", "--http-port="+s.port()) //nolint:noctx,gosec // it is killed by its group, and the arguments are ours
			cmd.Env = append(os.Environ(), "KC_BOOTSTRAP_ADMIN_USERNAME=admin", "KC_BOOTSTRAP_ADMIN_PASSWORD="+KeycloakPassword)
			return cmd
		},
		url: func(addr string) string { return "http://" + addr },
		ready: func(ctx context.Context, addr string) error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/realms/master", http.NoBody)
			if err != nil {
				return err
			}
			resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
			if err != nil {
				return err
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				return fmt.Errorf("status %d", resp.StatusCode)
			}
			return nil
		},
	})
}
