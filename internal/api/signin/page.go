package signin

import (
	_ "embed" // the page
	"html"
	"net/http"
	"strings"

	"github.com/isogloss-gateway/isogloss/internal/edge/webpage"
)

//go:embed page.html
var source string

// policy allows the page's own style and its form, and nothing else.
var policy = webpage.Policy(source, "'self'")

// writePage shows a message, with a link if there is one.
func writePage(w http.ResponseWriter, status int, title, message, link string) {
	body := "<p>" + html.EscapeString(message) + "</p>"
	if link != "" {
		body += `<p><a href="` + html.EscapeString(link) + `">Sign in</a></p>`
	}
	write(w, status, title, "", body)
}

// writeOnward sends the browser to another address. It is a page and not a redirect, because the
// policy of the page with the form forbids that its form redirects to other sites.
func writeOnward(w http.ResponseWriter, to string) {
	to = html.EscapeString(to)
	write(w, http.StatusOK, "One moment", `<meta http-equiv="refresh" content="0;url=`+to+`">`, `<p><a href="`+to+`">Continue</a></p>`)
}

// writeForm shows the form for a user code, with what was wrong before.
func writeForm(w http.ResponseWriter, status int, code, wrong string) {
	if len(code) == 8 {
		code = code[:4] + "-" + code[4:]
	}
	var b strings.Builder
	if wrong != "" {
		b.WriteString(`<p role="alert">` + html.EscapeString(wrong) + "</p>\n")
	}
	b.WriteString(`<p>A program on one of your devices wants to use the gateway in your name. Continue only if you have just started this sign-in yourself and the program shows the same code.</p>
<form method="post">
<label for="code">Code</label>
<input id="code" name="user_code" value="` + html.EscapeString(code) + `" autocomplete="off" autofocus required maxlength="20" spellcheck="false">
<button>Continue to sign in</button>
</form>`)
	write(w, status, "Sign in a device", "", b.String())
}

// writeSession shows an operator that the session has begun, and how it ends.
func writeSession(w http.ResponseWriter, role string) {
	write(w, http.StatusOK, "Signed in", "", `<p>Your role is `+html.EscapeString(role)+`. The session lasts for up to eight hours. Continue to the <a href="/">console</a>.</p>
<form method="post" action="`+logoutPath+`"><button>Sign out</button></form>`)
}

func write(w http.ResponseWriter, status int, title, refresh, body string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	text := strings.NewReplacer("<!-- title -->", html.EscapeString(title), "<!-- refresh -->", refresh, "<!-- body -->", body).Replace(source)
	_, _ = w.Write([]byte(text)) // a browser that disconnected needs nothing
}
