package discover

import "time"

// Worker is somebody who serves a model. It is written to etcd as this JSON.
type Worker struct {
	ID       string `json:"id"`                 // unique among all workers
	Model    string `json:"model"`              // the name that clients use
	Protocol string `json:"protocol"`           // openai-chat, openai-responses, anthropic, gemini
	URL      string `json:"url"`                // the base URL, as a provider's base_url
	Name     string `json:"name,omitempty"`     // the worker's own name for the model; empty: the same
	Capacity int    `json:"capacity,omitempty"` // open requests that it can bear; 0: no limit of its own
	Weight   int    `json:"weight,omitempty"`   // its share; less than 1 is 1
	Engine   string `json:"engine,omitempty"`   // the preset that says what it does in its own way; one that is not known says nothing
}

// Snapshot is all workers at one time, ordered by model and id. It is not changed
// after it was handed out.
type Snapshot struct {
	Workers  []Worker
	Revision int64     // the source's own; 0 where it has none
	At       time.Time // when the source said so
	Stale    bool      // it is from the disk, or the source is not there
}
