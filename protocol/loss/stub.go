package loss
func conversationTopics() []topic { return nil }
func blockTopics() []topic { return nil }
func toolTopics() []topic { return nil }
func settingTopics() []topic { return nil }
func answerTopics() []topic { return nil }
