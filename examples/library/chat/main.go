// Chat talks to any model from a terminal. The configuration names the models; each line of input is a message.
//
//	go run ./examples/library/chat -c isogloss.yaml -model fast
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"

	"github.com/isogloss-gateway/isogloss/gateway"
)

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

func main() {
	file := flag.String("c", "isogloss.yaml", "configuration")
	model := flag.String("model", "", "model of the configuration")
	flag.Parse()
	yaml, err := os.ReadFile(*file)
	if err != nil {
		log.Fatal(err)
	}
	g, err := gateway.New(yaml, gateway.Options{Log: io.Discard})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close(context.Background())
	if err := talk(g.Client(), *model, os.Stdin, os.Stdout); err != nil {
		log.Print(err)
	}
}

// talk answers each line of in, and remembers the conversation.
func talk(client *http.Client, model string, in io.Reader, out io.Writer) error {
	var history []message
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		history = append(history, message{"user", lines.Text()})
		answer, err := complete(client, model, history)
		if err != nil {
			return err
		}
		history = append(history, message{"assistant", answer})
		fmt.Fprintln(out, answer)
	}
	return lines.Err()
}

// complete sends the conversation in the dialect of Chat Completions, whatever the dialect of the model's server is.
func complete(client *http.Client, model string, history []message) (string, error) {
	body, err := json.Marshal(map[string]any{"model": model, "messages": history})
	if err != nil {
		return "", err
	}
	resp, err := client.Post("http://gateway/v1/chat/completions", "application/json", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		Choices []struct{ Message message }
		Error   struct{ Message string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK || len(answer.Choices) == 0 {
		return "", fmt.Errorf("%s: %s", resp.Status, answer.Error.Message)
	}
	return answer.Choices[0].Message.Content, nil
}
