package store

import (
	"context"

	"github.com/isogloss-gateway/isogloss/internal/ledger/store/db"
	"github.com/isogloss-gateway/isogloss/internal/ledger/store/labels"
	"github.com/isogloss-gateway/isogloss/internal/money/usage"
)

// appendLabels adds the labels of rows that are new.
func appendLabels(ctx context.Context, c db.Conn, rows []usage.Row) error {
	in := db.Insert{Head: `INSERT INTO labels (label, value, began, request_id) `}
	for i := range rows {
		for _, l := range labels.Of(&rows[i].Labels) {
			in.Rows = append(in.Rows, []any{l.Name, l.Value, nanos(rows[i].Began), rows[i].ID})
		}
	}
	return in.Run(ctx, c)
}
