package anthropic

import "github.com/isogloss-gateway/isogloss/internal/codec/blockcodec"

// kept keeps the members of this protocol that the neutral model has no field for.
const kept = blockcodec.Keeper(own)
