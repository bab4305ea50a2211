package amounts

import (
	"reflect"
	"testing"

	"github.com/isogloss-gateway/isogloss/internal/money/usage"
	"github.com/isogloss-gateway/isogloss/internal/test/filled"
)

// TestViewHasEveryField changes one field of a row after another: the view of the row must change too.
func TestViewHasEveryField(t *testing.T) {
	row := filled.New[usage.Row]()
	whole := RequestOf(row)
	filled.Each(&row, func(path string) {
		if reflect.DeepEqual(RequestOf(row), whole) {
			t.Errorf("the view of a request does not have the field %s", path)
		}
	})
}
