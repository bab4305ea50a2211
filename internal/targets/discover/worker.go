package discover

import (
	"time"

	"github.com/isogloss-gateway/isogloss/internal/targets/limit"
)

// Worker is a server of a model. Its JSON form is stored in etcd.
type Worker struct {
	ID       string `json:"id"`                 // unique among all workers
	Model    string `json:"model"`              // the name that clients use
	Protocol string `json:"protocol"`           // openai-chat, openai-responses, anthropic, gemini
	URL      string `json:"url"`                // the base URL, as a provider's base_url
	Name     string `json:"name,omitempty"`     // the worker's name for the model; empty: the same as Model
	Capacity int    `json:"capacity,omitempty"` // limit of open requests; 0: none
	Weight   int    `json:"weight,omitempty"`   // relative share of the requests; less than 1 is 1
	Engine   string `json:"engine,omitempty"`   // the preset of its engine; an unknown one is ignored
	Zone     string `json:"zone,omitempty"`     // where it runs; gateways of the same zone prefer it
}

// Snapshot is all workers at one time, sorted by model and id. It is immutable.
type Snapshot struct {
	Workers  []Worker
	Revision int64        // of the source; 0 if it has none
	At       time.Time    // when the source responded
	Stale    bool         // it is from the disk, or the source does not respond
	Share    Share        // of this gateway in the workers' capacity
	Turns    *limit.Turns // of workers that gateways use one after the other; nil: there are none
}
