"""What several agents share: the parts of an agent, its options, walking along links, answers and rankings."""
