package loss

func blockTopics() []topic {
	return []topic{
		{"Reasoning of earlier answers", Request, "Reasoning goes back only to whoever made it.", thoughtEntries()},
		{"Media", Request, "Images, documents, audio and video in what is asked.", mediaEntries()},
		{"Server tools and unknown blocks", Request, "What a vendor's own tools did in earlier answers, and blocks that only one protocol has.", otherEntries()},
		{"Prompt cache", Request, "Marks and settings for the provider's prompt cache.", cacheEntries()},
	}
}

func thoughtEntries() []entry {
	const (
		foreign   = "reasoning of another vendor's model is left out"
		seals     = "block.seals seal.form seal.data seal.origin"
		onlyMaker = "only its maker can read it"
	)
	return []entry{
		{
			"thought.parts.text thought.parts.form", "without a seal, of another protocol",
			dropped("reasoning.foreign", foreign), dropped("reasoning.foreign", foreign),
			dropped("reasoning.foreign", foreign), dropped("reasoning.foreign", foreign),
		},
		{
			"thought.parts.text", "on a server that wants it back", renamed("messages[].reasoning_content", "or whatever the model's entry names"),
			dropped("reasoning.foreign", foreign), dropped("reasoning.foreign", foreign), dropped("reasoning.foreign", foreign),
		},
		{
			"thought " + seals, "of the same protocol", exact("messages[].reasoning_content"), exact("input[].encrypted_content"),
			exact("messages[].content[].signature"), exact("contents[].parts[].thoughtSignature"),
		},
		{
			"thought " + seals, "of another protocol", dropped("reasoning.foreign", foreign), dropped("reasoning.foreign", foreign),
			dropped("reasoning.foreign", foreign), dropped("reasoning.foreign", foreign),
		},
		{
			"thought " + seals, "redacted by Anthropic", dropped("reasoning.foreign", foreign), dropped("reasoning.foreign", foreign),
			exact("messages[].content[].data"), dropped("reasoning.foreign", foreign),
		},
		{
			"tool_call " + seals, "of Gemini", renamed("messages[].tool_calls[].extra_content", "for servers that know it"), dropped("seal.foreign", onlyMaker),
			dropped("seal.foreign", onlyMaker), exact("contents[].parts[].thoughtSignature"),
		},
		{
			"tool_call block.seals", "none, on a Gemini model of the third generation", form("none is wanted"), form("none is wanted"), form("none is wanted"),
			near("seal.skipped", "contents[].parts[].thoughtSignature", "the documented stand-in is sent"),
		},
		{
			"text " + seals, "of Gemini", dropped("seal.foreign", onlyMaker), dropped("seal.foreign", onlyMaker),
			dropped("seal.foreign", onlyMaker), exact("contents[].parts[].thoughtSignature"),
		},
		{
			"thought", "in the user's turn", refused("block.misplaced", "only the assistant thinks"), refused("block.misplaced", "only the assistant thinks"),
			dropped("reasoning.foreign", foreign), dropped("reasoning.foreign", foreign),
		},
	}
}

func mediaEntries() []entry {
	const otherVendor = "the file is another vendor's; send its content"
	return []entry{
		{
			"media.kind media.mime media.data", "image", renamed("messages[].content[].image_url.url", "a data URL"),
			renamed("input[].content[].image_url", "a data URL"), exact("messages[].content[].source.data"), exact("contents[].parts[].inlineData.data"),
		},
		{
			"media.mime", "an image with a wrong label", exact("messages[].content[].image_url.url"), exact("input[].content[].image_url"),
			near("image.type_corrected", "messages[].content[].source.media_type", "what the bytes say is sent"), exact("contents[].parts[].inlineData.mimeType"),
		},
		{
			"media.mime", "an image that is neither JPEG, PNG, GIF nor WebP", exact("messages[].content[].image_url.url"), exact("input[].content[].image_url"),
			refused("image.type", "the vendor does not read it"), exact("contents[].parts[].inlineData.data"),
		},
		{
			"media.mime", "unset", near("media.type_guessed", "messages[].content[].image_url.url", "what the bytes say is sent"),
			near("media.type_guessed", "input[].content[].image_url", "what the bytes say is sent"),
			near("image.type_corrected", "messages[].content[].source.media_type", "what the bytes say is sent"),
			near("media.type_guessed", "contents[].parts[].inlineData.mimeType", "what the bytes say is sent"),
		},
		{
			"media.url", "of an image", exact("messages[].content[].image_url.url"), exact("input[].content[].image_url"),
			exact("messages[].content[].source.url"), refused("media.url", "the API fetches nothing; send the data"),
		},
		{
			"media.url", "of an image, other than http", exact("messages[].content[].image_url.url"), exact("input[].content[].image_url"),
			refused("media.url", "the vendor fetches http addresses only"), renamed("contents[].parts[].fileData.fileUri", "gs:// and the Files API only"),
		},
		{
			"media.url", "of a document", refused("media.url", "only images can be given by address"), renamed("input[].content[].file_url", ""),
			exact("messages[].content[].source.url"), refused("media.url", "the API fetches nothing; send the data"),
		},
		{
			"media.file_id", "of the same vendor", exact("messages[].content[].file.file_id"), exact("input[].content[].file_id"),
			exact("messages[].content[].source.file_id"), renamed("contents[].parts[].fileData.fileUri", ""),
		},
		{
			"media.file_id", "of another vendor", refused("media.foreign_file", otherVendor), refused("media.foreign_file", otherVendor),
			refused("media.foreign_file", otherVendor), refused("media.foreign_file", otherVendor),
		},
		{
			"media.data media.mime", "PDF", renamed("messages[].content[].file.file_data", "a data URL"), renamed("input[].content[].file_data", "a data URL"),
			exact("messages[].content[].source.data"), exact("contents[].parts[].inlineData.data"),
		},
		{
			"media.data media.mime", "a document of another type", renamed("messages[].content[].file.file_data", "a data URL"),
			renamed("input[].content[].file_data", "a data URL"), refused("file.type", "the vendor reads PDF and plain text"), exact("contents[].parts[].inlineData.data"),
		},
		{
			"media.text", "", near("document.as_text", "messages[].content[].text", "its title and context before it"),
			near("document.as_file", "input[].content[].file_data", "a text file"), exact("messages[].content[].source.data"),
			near("document.as_file", "contents[].parts[].inlineData.data", "a text file"),
		},
		{
			"media.name", "", exact("messages[].content[].file.filename"), exact("input[].content[].filename"),
			renamed("messages[].content[].title", "where there is no title"), dropped("media.name", "there is no member for it"),
		},
		{
			"media.title", "", renamed("messages[].content[].file.filename", "where there is no name"), renamed("input[].content[].filename", "where there is no name"),
			exact("messages[].content[].title"), dropped("media.name", "there is no member for it"),
		},
		{
			"media.context", "", dropped("document.context", "sent with a document in text only"), dropped("document.context", "there is no member for it"),
			exact("messages[].content[].context"), dropped("media.name", "there is no member for it"),
		},
		{
			"media.detail", "", exact("messages[].content[].image_url.detail"), exact("input[].content[].detail"),
			dropped("media.detail", "there is no member for it"), dropped("media.detail", "it is set for the whole request there"),
		},
		{
			"media.kind", "audio, WAV or MP3", renamed("messages[].content[].input_audio.data", ""), renamed("input[].content[].input_audio.data", ""),
			refused("media.unsupported", "the vendor hears nothing"), exact("contents[].parts[].inlineData.data"),
		},
		{
			"media.kind", "audio of another type", refused("media.unsupported", "send WAV or MP3"), refused("media.unsupported", "send WAV or MP3"),
			refused("media.unsupported", "the vendor hears nothing"), exact("contents[].parts[].inlineData.data"),
		},
		{
			"media.kind", "video", refused("media.unsupported", "there is no part for it"), refused("media.unsupported", "there is no part for it"),
			refused("media.unsupported", "there is no block for it"), exact("contents[].parts[].inlineData.data"),
		},
		{
			"media", "empty", refused("media.empty", "there is nothing in it"), refused("media.empty", "there is nothing in it"),
			refused("media.empty", "there is nothing in it"), refused("media.empty", "there is nothing in it"),
		},
		{
			"media", "text data that is not base64", exact("messages[].content[].file.file_data"), exact("input[].content[].file_data"),
			refused("media.data", "it cannot be decoded"), exact("contents[].parts[].inlineData.data"),
		},
		{
			"media", "in the assistant's turn", dropped("media.assistant", "only text may stand there"), dropped("media.assistant", "only text may stand there"),
			near("media.moved", "messages[].content", "in the user's next message"), exact("contents[].parts[].inlineData.data"),
		},
		{
			"media", "in system text", exact("messages[].content[].image_url.url"), exact("input[].content[].image_url"),
			refused("media.in_system", "system text is text only"), exact("systemInstruction.parts[].inlineData.data"),
		},
	}
}

func otherEntries() []entry {
	const (
		inWords = "told in words"
		unknown = "nobody else can read it"
	)
	return []entry{
		{
			"server_call.protocol server_call.type server_call.raw", "of the same protocol", near("server_tool.digest", "messages[].content", inWords),
			exact("input[].toolCall"), exact("messages[].content[].toolCall"), exact("contents[].parts[].toolCall"),
		},
		{
			"server_call.digest", "of another protocol", near("server_tool.digest", "messages[].content", inWords), near("server_tool.digest", "input[].content", inWords),
			near("server_tool.digest", "messages[].content", inWords), near("server_tool.digest", "contents[].parts[].text", inWords),
		},
		{
			"server_call.raw", "of another protocol, without a digest", dropped("server_tool.dropped", unknown), dropped("server_tool.dropped", unknown),
			dropped("server_tool.dropped", unknown), dropped("server_tool.dropped", unknown),
		},
		{
			"opaque.protocol opaque.type opaque.raw", "of the same protocol", exact("messages[].content[].odd"), exact("input[].content[].odd"),
			exact("messages[].content[].odd"), exact("contents[].parts[].odd"),
		},
		{
			"opaque.protocol opaque.type opaque.raw", "of another protocol, in the user's turn", refused("block.unknown", unknown), refused("block.unknown", unknown),
			refused("block.unknown", unknown), refused("block.unknown", unknown),
		},
		{
			"opaque.protocol opaque.type opaque.raw", "of another protocol, in the assistant's turn", dropped("block.unknown", "the conversation goes on without it"), refused("block.unknown", unknown),
			refused("block.unknown", unknown), refused("block.unknown", unknown),
		},
	}
}

func cacheEntries() []entry {
	const byItself = "the vendor caches by itself"
	return []entry{
		{
			"block.cache cache_mark.ttl", "5m or 1h", dropped("cache.mark", byItself), dropped("cache.mark", byItself),
			exact("messages[].content[].cache_control.ttl"), dropped("cache.mark", byItself),
		},
		{
			"block.cache cache_mark.ttl", "another lifetime", dropped("cache.mark", byItself), dropped("cache.mark", byItself),
			near("cache_ttl.rounded", "messages[].content[].cache_control.ttl", "1h"), dropped("cache.mark", byItself),
		},
		{
			"block.cache cache_mark.ttl", "of the same protocol", exact("messages[].content[].prompt_cache_breakpoint.ttl"),
			exact("input[].content[].prompt_cache_breakpoint.ttl"), exact("messages[].content[].cache_control.ttl"), dropped("cache.mark", "the protocol has no marks"),
		},
		{
			"cache_mark.ext", "of another protocol", dropped("cache.mark", "with the mark"), dropped("cache.mark", "with the mark"),
			dropped("ext.unknown_field", noOddMembers), dropped("cache.mark", "with the mark"),
		},
		{
			"tools.cache", "", dropped("cache.mark", byItself), dropped("cache.mark", byItself),
			exact("tools[].cache_control.ttl"), dropped("cache.mark", byItself),
		},
		{
			"cache.auto", "", dropped("cache.automatic", byItself), dropped("cache.automatic", byItself),
			renamed("cache_control.ttl", ""), dropped("cache.automatic", byItself),
		},
		{
			"cache.key", "", renamed("prompt_cache_key", ""), renamed("prompt_cache_key", ""),
			dropped("cache.key_unsupported", "there is no member for it"), dropped("cache.key_unsupported", "there is no member for it"),
		},
		{
			"cache.retention", "", renamed("prompt_cache_retention", ""), renamed("prompt_cache_retention", ""),
			dropped("cache.retention_unsupported", "there is no member for it"), dropped("cache.retention_unsupported", "there is no member for it"),
		},
	}
}
