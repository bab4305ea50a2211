package login

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/isogloss-gateway/isogloss/internal/base/plain"
)

// Call sends a request with JSON to a gateway at which somebody is signed in, and decodes the result. An empty gateway is
// the only one.
func (l *Logins) Call(ctx context.Context, gateway, method, path string, in, out any) error {
	all, err := l.read()
	if err != nil {
		return err
	}
	at, err := pick(all, gateway)
	if err != nil {
		return err
	}
	token, err := l.Token(ctx, at)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, at+path, &body)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := l.client().Do(req)
	if err != nil {
		return short(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return short(err)
	}
	if resp.StatusCode/100 != 2 {
		return refused(resp.StatusCode, text)
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("the answer of %s cannot be read; it may have another version", at)
	}
	return nil
}

// refused returns the error of a response.
func refused(status int, text []byte) error {
	var answer struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(text, &answer) != nil || answer.Error.Message == "" {
		return fmt.Errorf("the gateway answers %d; it may be of a version without own keys", status)
	}
	return fmt.Errorf("%s", plain.Short(answer.Error.Message, maxMessage))
}

// maxMessage is the number of characters of a gateway's message that are shown.
const maxMessage = 600
